"""The machine that Mica runs on, and the places where it keeps results: show_config, clear_cache."""
from __future__ import annotations

import os
import sys

from . import _mica


def command() -> str:
    """The path of the package's command `mica`."""
    return os.path.join(os.path.dirname(_mica.__file__), "mica")


def database() -> str | None:
    """The file of remembered results: $MICA_DB, else a file in the cache folder; None if there is no such folder."""
    return _mica.Context().database()


def _cuda() -> str:
    """The version of the CUDA driver as text. The CUDA libraries are loaded by this call, not by the import of the package."""
    import ctypes
    try:
        version = ctypes.c_int()
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
        return f"driver for CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    except (OSError, AttributeError):
        return "none"


def _compiler() -> str:
    import shutil
    name = os.environ.get("CC") or "cc"
    return shutil.which(name.split()[0]) or f"none ({name} is not in PATH)"


def config() -> dict[str, str]:
    version, sources, abi = _mica.version()
    db = database()
    size = f"{os.path.getsize(db) / 1024:.0f} KiB" if db and os.path.exists(db) else "not there yet"
    return {"mica": f"{version} (sources {sources}, binary interface {abi})", "python": sys.version.split()[0], "extension": _mica.__file__,
            "command": command(), "compiler": _compiler(), "cuda": _cuda(), "database": f"{db} ({size})" if db else "none"}


def show_config() -> None:
    """Prints versions, the C compiler for kernels, the CUDA driver, and the paths of the database and cache."""
    for name, value in config().items():
        print(f"{name:10} {value}")


def clear_cache() -> list[str]:
    """Forgets all remembered results by removing the database's files. Returns the paths of the removed files."""
    gone = []
    db = database()
    for name in (db + end for end in ("", "-wal", "-shm", "-journal")) if db else ():
        try:
            os.remove(name)
            gone.append(name)
        except FileNotFoundError:
            pass
    return gone


def gpu_target(device: int = 0) -> str | None:
    """The best target for GPU number `device` of this machine; None if there is no such GPU, or no target for it."""
    try:
        return _mica.Context().gpu_target(device)
    except _mica.Error:
        return None
