"""Shows the progress of an optimization: a line on a terminal that is rewritten in place, or an output cell in a notebook, otherwise nothing."""
from __future__ import annotations

import os
import sys
import time

PERIOD = 0.1  # minimum of seconds between two updates within a stage
WIDTH = 110


def count(n: int) -> str:
    return str(n) if n < 10_000 else f"{n / 1e3:.0f}k" if n < 10_000_000 else f"{n / 1e6:.0f}M"


def line(label, stage, part, parts, states, pruned, verified, best_us, done, left=None) -> str:
    text = f"{label}: {stage}" + (f" {part}/{parts}" if parts > 1 else "")
    if states:
        text += f"  {count(states)} tried, {count(pruned)} pruned, {verified} verified"
    if best_us > 0:
        text += f", best {best_us:.1f} us"
    if left is not None:
        text += f", {left:.0f} s left"
    return text[:WIDTH]


class Quiet:
    """Shows nothing."""
    callback = None

    def close(self) -> None:
        pass


class Line:
    """The progress callback of the extension. Subclasses write its text."""

    def __init__(self, label: str):
        self.label, self.start, self.last, self.shown = label, time.monotonic(), 0.0, False
        self.callback = self

    def __call__(self, stage, part, parts, states, pruned, verified, best_us, done) -> None:
        now = time.monotonic()
        if now - self.last < PERIOD and 0 < done < 1:
            return
        if not self.last or done <= 0:  # a new stage: its remaining time is estimated from its own start
            self.start = now
        left = (now - self.start) * (1 - done) / done if 0.02 < done < 1 else None
        self.put(line(self.label, stage, part, parts, states, pruned, verified, best_us, done, left))
        self.last, self.shown = now, True

    def put(self, text: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class Terminal(Line):
    """The line on stderr, dim unless NO_COLOR is set or TERM is dumb."""

    def put(self, text: str) -> None:
        if not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
            text = f"\033[2m{text}\033[0m"
        sys.stderr.write("\r\033[K" + text)
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


class Notebook(Line):
    def __init__(self, label: str, display):
        super().__init__(label)
        self.display, self.handle = display, None

    def put(self, text: str) -> None:
        data = {"text/plain": text}
        if self.handle is None:
            self.handle = self.display(data, raw=True, display_id=True)
        else:
            self.handle.update(data, raw=True)

    def close(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": f"{self.label}: done"}, raw=True)


class Given(Line):
    """Calls the user's function with a dictionary."""

    def __init__(self, function):
        super().__init__("")
        self.function = function

    def __call__(self, stage, part, parts, states, pruned, verified, best_us, done) -> None:
        self.function(dict(stage=stage, part=part, parts=parts, states=states, pruned=pruned, verified=verified, best_us=best_us, done=done))


def notebook_display():
    """IPython's display function in a notebook's kernel, else None. IPython is not imported if it was not."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display
    return display


def progress_open(wish, label: str):
    """wish: None shows progress on terminals and in notebooks, True always, False never. A function is called with a dictionary."""
    if callable(wish):
        return Given(wish)
    if wish is False:
        return Quiet()
    display = notebook_display()
    if display:
        return Notebook(label, display)
    return Terminal(label) if wish or sys.stderr.isatty() else Quiet()
