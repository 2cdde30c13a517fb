"""TileLang: compilation of several configurations side by side."""
import concurrent.futures
import os

from .library import need_gpu

KERNELS = {}  # (builder, its arguments, configuration) -> kernel, or the exception of its compilation
COMPILE_S = 70


def dtype_of(x):
    return str(x.dtype).replace("torch.", "")


def compile_one(function, outputs):
    import tilelang

    need_gpu()
    return tilelang.compile(function, out_idx=list(range(-outputs, 0)), pass_configs={"tl.enable_fast_math": True})


def lower_one(function, outputs):
    """The source of a kernel in CUDA instead, for which no GPU is needed."""
    import tilelang

    target = tilelang.tvm.target.Target({"kind": "cuda", "arch": "sm_90a"})
    with target:
        return tilelang.lower(function, target=target).kernel_source


COMPILE = [compile_one]  # the last one is used


def compile_all(builder, args, configs, outputs=1):
    """Fills KERNELS; compilers run side by side, and those that take too long are given up. The last parameters are results."""
    todo = [c for c in configs if (builder, args, c) not in KERNELS]
    pool = concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1))
    running = {}
    for c in todo:
        try:
            running[pool.submit(COMPILE[-1], builder(*args, *c), outputs)] = c
        except Exception as e:
            KERNELS[builder, args, c] = e
    concurrent.futures.wait(running, COMPILE_S)
    for future, c in running.items():
        if not future.done():
            future.cancel()
            KERNELS[builder, args, c] = RuntimeError("compilation took over %d s" % COMPILE_S)
        else:
            KERNELS[builder, args, c] = future.exception() or future.result()
    pool.shutdown(wait=False, cancel_futures=True)


def kernel(builder, args, config, outputs=1):
    """A compiled kernel; a call returns its results."""
    if (builder, args, config) not in KERNELS:
        compile_all(builder, args, [config], outputs)
    found = KERNELS[builder, args, config]
    if isinstance(found, Exception):
        raise found
    return found


def round_up(n, m):
    return -(-n // m) * m
