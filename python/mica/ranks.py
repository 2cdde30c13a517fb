"""The rank of this process in a program of several devices."""
from __future__ import annotations

import os

from . import _mica

_opened: dict[str, int] = {}  # number of worlds opened in this process, by name


def _number(key: str) -> int:
    text = os.environ.get(key)
    if text is None:
        raise _mica.UsageError(f"this process is no rank: {key} is not set; give a number, or start it by torchrun")
    try:
        return int(text)
    except ValueError:
        raise _mica.UsageError(f"{key} is {text[:40]!r}, which is no number") from None


def torchrun_rank(program: _mica.Module, name: str | None) -> tuple[int, str]:
    """The rank of this process under torchrun, and a name for its world. The n-th world that a process opens has the same name in all processes of
    the run."""
    rank, size = _number("RANK"), _number("WORLD_SIZE")
    local = int(_number("LOCAL_WORLD_SIZE")) if "LOCAL_WORLD_SIZE" in os.environ else size
    if size != program.world:
        raise _mica.UsageError(f"{program.name} has a world of {program.world} devices, and this run has {size} processes")
    if local != size:
        raise _mica.UsageError(f"{local} of {size} processes are on this machine, and ranks meet in its memory")
    if name is None:
        run = [os.environ.get(k, "") for k in ("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")]
        name = "".join(c if c.isascii() and c.isalnum() else "-" for c in "-".join(["torchrun", *run]))[:80]
        _opened[name] = _opened.get(name, 0) + 1
        name = f"{name}.{_opened[name]}"
    return rank, name
