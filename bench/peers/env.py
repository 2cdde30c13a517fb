"""Shared by every module here: the libraries, which only a measuring process imports.

PEERS_ROLE is '' in the supervisor, 'child' in a process that measures, 'dry' in a check on the CPU.
"""
import os
import tempfile


TMP = tempfile.gettempdir()
ROLE = os.environ.get("PEERS_ROLE", "")
torch = F = triton = tl = None


if ROLE in ("child", "dry"):
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(TMP, "peers_cache", "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(TMP, "peers_cache", "triton"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "16")
    os.environ.setdefault("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS", "ATEN,TRITON")
    import torch  # noqa: E402
    import torch.nn.functional as F  # noqa: E402

    try:
        import triton  # noqa: E402
        import triton.language as tl  # noqa: E402
    except Exception:  # triton is optional: its baselines are then n/a
        triton = None
        tl = None


MA = "max-autotune-no-cudagraphs"


class Sizes:
    tiny = False  # --dry-run: big extents shrink


def sz(n):
    """An extent; shrunk in the dry run."""
    return max(16, n // 64) if (Sizes.tiny and n >= 256) else n


def cdiv(a, b):
    return -(-a // b)


def next_p2(n):
    return 1 << max(0, n - 1).bit_length()
