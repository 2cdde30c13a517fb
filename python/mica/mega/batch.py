"""Batch: requests that join and leave at any launch. This module keeps the free list of pages and the page tables, and chooses the rows of each
launch. The model checks them."""
from __future__ import annotations

from collections import deque

from .._mica import UsageError
from .model import STEPS, Model, Row


class Request:
    """A prompt, the options of sampling, and the tokens made so far (`made`). `done` is None until the request ends, then "length", "stop" or
    "cancelled"."""
    __slots__ = ("id", "prompt", "most", "temperature", "top", "seed", "stop", "on_token", "pages", "fed", "made", "done", "reserved", "error")

    def __init__(self, id, prompt, most, temperature, top, seed, stop, on_token):
        self.id, self.prompt, self.most, self.temperature, self.top, self.seed, self.stop = id, prompt, most, temperature, top, seed, frozenset(stop)
        self.on_token, self.pages, self.fed, self.made, self.done, self.reserved, self.error = on_token, [], 0, [], None, 0, None

    @property
    def in_prompt(self) -> bool:
        return self.fed < len(self.prompt)

    def token(self, at: int) -> int:
        return self.prompt[at] if at < len(self.prompt) else self.made[at - len(self.prompt)]


class Batch:
    """The running and waiting requests of a model. burst: most steps of a launch in which all requests decode, up to 64. One thread calls step. Other
    threads may call submit and cancel if the caller has a lock around all of these calls."""

    def __init__(self, model: Model, burst: int = 1):
        if not model.pages:
            raise UsageError("this model has no cache that requests share: its layers are not served_attention")
        self.model, self.burst = model, max(1, min(burst, STEPS))
        self.free = deque(range(1, model.pages))  # the first page is for rows without a request
        self.promised = 0  # pages that running requests may still take
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self._turn = self._next = 0

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    def submit(self, prompt, max_tokens: int = 16, *, temperature: float = 0.0, top_k: int = 0, seed: int = 0, stop=(), on_token=None) -> Request:
        """Queues a request. stop: numbers of tokens that end it. on_token(request, token) is called for each token, and with None at the end.
        UsageError for a token outside of the vocabulary, or a request that needs more pages than the cache has."""
        prompt = [int(t) for t in prompt]
        if not prompt or max_tokens < 1:
            raise UsageError("a request has a prompt of one token or more, and makes one token or more")
        vocabulary = next(shape[-1] for kind, _, shape in self.model.tensors.values() if kind == "output")
        if any(t < 0 or t >= vocabulary for t in prompt):
            raise UsageError(f"tokens are from 0 to {vocabulary - 1}")
        if not 0 <= temperature < 1e6 or not 0 <= top_k <= 64:
            raise UsageError("the temperature is 0 or more, and top_k from 1 to 64, or 0 for all")
        r = Request(self._next, prompt, max_tokens, float(temperature), int(top_k), int(seed) & (1 << 64) - 1, stop, on_token)
        r.reserved = -(-(len(prompt) + max_tokens) // self.model.slots)
        if r.reserved >= self.model.pages:
            raise UsageError(f"the request needs {r.reserved} pages of {self.model.slots} positions, and the cache has {self.model.pages - 1}")
        self._next += 1
        self.waiting.append(r)
        return r

    def cancel(self, r: Request) -> None:
        if r.done is None:
            self._end(r, "cancelled")

    def _end(self, r: Request, why: str) -> None:
        r.done = why
        if r in self.running:
            self.running.remove(r)
            self.promised -= r.reserved - len(r.pages)
            self.free.extend(r.pages)
        elif r in self.waiting:
            self.waiting.remove(r)
        r.pages = []
        if r.on_token:
            r.on_token(r, None)

    def _admit(self) -> None:
        """Admits waiting requests. A request needs free pages for its whole length, so that running requests never wait for pages."""
        while self.waiting and len(self.free) - self.promised >= self.waiting[0].reserved:
            r = self.waiting.popleft()
            self.promised += r.reserved
            self.running.append(r)

    def _pages_for(self, r: Request, positions: int) -> None:
        while len(r.pages) * self.model.slots < positions:
            r.pages.append(self.free.popleft())
            self.promised -= 1

    def _choose(self) -> list[tuple[Request, int]]:
        """Requests with the number of rows that each gets. Requests that decode come first, in turn; prompts share the rest."""
        order = self.running[self._turn % max(1, len(self.running)):] + self.running[:self._turn % max(1, len(self.running))]
        left, chosen = self.model.rows, []
        for r in [r for r in order if not r.in_prompt] + [r for r in order if r.in_prompt]:
            n = min(left, len(r.prompt) - r.fed) if r.in_prompt else min(left, 1)
            if n:
                chosen.append((r, n))
            left -= n
        self._turn += 1
        return chosen

    def step(self) -> int:
        """Runs one launch, if there is a request. Returns the number of tokens made."""
        self._admit()
        chosen = self._choose()
        if not chosen:
            return 0
        steps = 1
        if len(chosen) == len(self.running) and all(not r.in_prompt for r, _ in chosen):
            steps = max(1, min(self.burst, *(r.most - len(r.made) for r, _ in chosen)))
        rows = []
        for r, n in chosen:
            self._pages_for(r, r.fed + n + steps - 1)
            pages = tuple(r.pages)
            rows += [Row(r.id & 0x3fffffff, r.token(r.fed + i), r.fed + i, pages, r.temperature, r.top, r.seed) for i in range(n)]
        tokens, _ = self.model.step(rows, steps)
        made, at = 0, 0
        for r, n in chosen:
            at += n
            r.fed += n
            if r.in_prompt:
                continue
            for s in range(steps):
                if r.done is not None:
                    break
                made += 1
                r.made.append(tokens[s][at - 1])
                r.fed += s > 0
                if r.on_token:
                    r.on_token(r, r.made[-1])
                if r.done is None and (r.made[-1] in r.stop or len(r.made) >= r.most):
                    self._end(r, "stop" if r.made[-1] in r.stop else "length")
        return made
