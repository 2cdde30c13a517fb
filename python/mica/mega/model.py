"""Model: a decode step with a proved plan, its weights and its cache."""
from __future__ import annotations

import json
import os
from typing import NamedTuple

from .. import _mica
from .._mica import UsageError
from . import weights as _weights

STEPS = 64  # largest number of steps of a launch


class Row(NamedTuple):
    """A row of a step: one token of a request. Several rows of one request are a part of its prompt. They are adjacent, with consecutive
    positions."""
    request: int = -1  # -1: the row does nothing
    token: int = 0
    position: int = 0  # of the token in its request
    pages: tuple[int, ...] = ()  # of the request, in the order of its positions
    temperature: float = 0.0  # 0: the token of the largest logit is next
    top: int = 0  # sampling chooses among this many of the largest logits; 0: among all
    seed: int = 0


class Model:
    """A model with a proved plan, made by from_config, from_folder or from_text.

    rows: tokens of a step. pages, slots: pages of the cache that requests share, and positions of a page; pages is 0 if rows have their own cache.
    NotEqualError if the proof fails, UsageError for a configuration that is not supported."""

    def __init__(self, text: str, name: str, config: dict | None = None, *, engine: str = "cpu", device: int = 0, rows: int = 0, pages: int = 0,
                 workers: int = 0, deadline: float = 2.0, trace: bool = False, attention_parts: int = 0):
        self.config = config
        self._mega = _mica.Mega(_mica.Context(), text, name, (engine, device, rows, pages, workers, deadline, trace, attention_parts))
        self.rows, self.pages, self.slots = self._mega.sizes
        self.engine = engine

    @property
    def tensors(self) -> dict[str, tuple[str, str, tuple[int, ...]]]:
        """Weights, state and output: name -> (kind, dtype, shape). Kinds are "weights", "state" and "output"."""
        return {name: (kind, dtype, shape) for name, kind, dtype, shape in self._mega.tensors}

    def plan(self, what: str = "plan") -> str:
        """The plan as text. `what` may also be "text" (the .mega form), "regions", "events", "schedule" or "model" (modelled times in ns)."""
        return self._mega.tell(what)

    def prove(self) -> str:
        """The proof as text, check by check. NotEqualError if a check fails."""
        return self._mega.tell("proof")

    def compile(self) -> Model:
        """Does nothing: a model with weights is ready. It exists because MPK's models have it."""
        return self

    def source(self) -> str:
        """The CUDA C++ of the kernel, with a host program."""
        return self._mega.tell("cuda")

    # ---- weights ----

    def random(self, seed: int = 0) -> Model:
        """Sets all weights to random numbers. The same seed gives the same weights as `mica mega run --seed`."""
        self._mega.random(seed)
        return self

    def load(self, source) -> Model:
        """Sets the weights by the names of transformers, from a mapping of arrays, or from a folder or file of safetensors. UsageError lists the
        names that are missing or unknown, or the first wrong shape."""
        if isinstance(source, (str, os.PathLike)):
            source = _weights.read_safetensors(source)
        if self.config is None:
            raise UsageError("names of transformers are known for models that come from a configuration; use set_weights")
        for name, array in _weights.from_transformers(source, self.tensors, self.config):
            self._mega.weights(name, array)
        return self

    def set_weights(self, name: str, array) -> None:
        """Sets one weight by the plan's name. The array has the number of elements of the shape in `tensors`."""
        self._mega.weights(name, array)

    # ---- steps ----

    def step(self, rows, steps: int = 1, logits: bool = False):
        """Runs one launch of `steps` steps, at most 64. Returns (tokens [step][row], logits of the last step [rows, vocabulary] as an Array, or
        None). Missing rows do nothing. Between steps each row continues with its own token. Rows of a prompt must run a single step. NotEqualError if
        a wait exceeds the deadline: `fault` then has the record, and the model can be used again."""
        rows = [tuple(r) for r in rows]
        return self._mega.step(rows + [tuple(Row())] * (self.rows - len(rows)), steps, logits)

    @property
    def fault(self) -> str:
        """The reason why the last launch ended early: the waiting task, its event, the value seen and the one wanted. "" if it did not."""
        return self._mega.fault

    @property
    def seconds(self) -> float:
        """Duration of the last launch in seconds, on a GPU by its clock."""
        return self._mega.seconds

    def trace(self, path: str) -> None:
        """Writes the end times of all tasks of the last step to a file in the Trace Event Format. On a GPU the model needs trace=True."""
        self._mega.trace(path)

    def generate(self, prompts, max_tokens: int = 16, *, temperature: float = 0.0, top_k: int = 0, seed: int = 0, stop=(),
                 burst: int = 16) -> list[list[int]]:
        """Returns the tokens that follow each prompt. All requests run together. burst: largest number of steps of a launch."""
        from .batch import Batch
        batch = Batch(self, burst=burst)
        requests = [batch.submit(p, max_tokens, temperature=temperature, top_k=top_k, seed=seed + i, stop=stop) for i, p in enumerate(prompts)]
        while batch.busy:
            batch.step()
        return [r.made for r in requests]


# Fields of a configuration object that the plan reads. Others are dropped, but in a config.json an unknown field is an error.
_KEPT = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
         "vocab_size", "rms_norm_eps", "rope_theta", "rope_scaling", "tie_word_embeddings", "torch_dtype", "dtype", "hidden_act", "attention_bias",
         "mlp_bias", "use_sliding_window", "num_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob", "decoder_sparse_step",
         "mlp_only_layers")


def _config_dict(config) -> dict:
    if isinstance(config, dict):
        return dict(config)
    full = config.to_dict() if hasattr(config, "to_dict") else dict(vars(config))
    kept = {k: full[k] for k in _KEPT if full.get(k) is not None}
    rope = full.get("rope_parameters") or {}  # transformers 5
    if rope and "rope_theta" in rope:
        kept.setdefault("rope_theta", rope["rope_theta"])
    if rope.get("rope_type", "default") != "default":
        kept.setdefault("rope_scaling", rope)
    for k in ("torch_dtype", "dtype"):
        if k in kept:
            kept[k] = str(kept[k]).removeprefix("torch.")
    return kept


def from_config(config, **options) -> Model:
    """A Llama, Qwen3 or Qwen3 with experts by its configuration: the path of a config.json, a dictionary, or a configuration object of transformers.

    options: rows (tokens of a step), pages (of the shared cache, 64 positions each; 0: 64), engine ("cpu" or "gpu"), device (number of the GPU),
    workers (0: 4 threads, or 132 blocks on a GPU), deadline (seconds of one wait), trace (record times on a GPU), attention_parts (parts of the
    cached positions, each a work tile; 0: the number with the least modelled time)."""
    name = "config"
    if isinstance(config, (str, os.PathLike)):
        name = os.fspath(config)
        with open(name, encoding="utf-8") as f:
            text = f.read()
        try:
            config = json.loads(text)
        except (ValueError, RecursionError):
            config = None  # Model reports the place of the error
    else:
        config = _config_dict(config)
        text = json.dumps(config)
    return Model(text, name, config, **options)


def from_text(text: str, name: str = "model", **options) -> Model:
    """A model in the text form (docs/mega.md)."""
    return Model(text, name, None, **options)


def from_folder(folder, **options) -> Model:
    """A folder with config.json and safetensors, as transformers saves them."""
    return from_config(os.path.join(os.fspath(folder), "config.json"), **options).load(folder)
