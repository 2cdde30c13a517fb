"""Ranks of a saved program on GPUs, from Python: examples/world/tensor_parallel_mlp.mica, as `mica optimize --out` saved it.

    python3 bench/world_gpu.py FOLDER                        # a thread a rank
    torchrun --nproc-per-node 2 bench/world_gpu.py FOLDER    # a process a rank, against torch and NCCL

Every rank must have the bits of rank 0, and the result is held against float64. Lines are what, setting, median, least, most, unit, repeats; each is
of calls in a CUDA graph where ranks are processes. NVLink multicast stays off.
"""
import os
import statistics
import sys
from threading import Barrier, Thread

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
import torch

import mica

CALLS, REPEATS = 50, 15


def whole_inputs(f):
    g = torch.Generator().manual_seed(1)
    return [torch.randn(tuple(s.shape), generator=g, dtype=torch.float32) / s.shape[0] ** 0.5 for s in f.inputs]


def reference(inputs, dtype):
    x, w1, w3, w2 = (t.to(dtype).double() for t in inputs)
    return x + (torch.nn.functional.silu(x @ w1) * (x @ w3)) @ w2


def parts(f, inputs, rank):
    dtype = getattr(torch, {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}[str(f.inputs[0].dtype)])
    cut = [t if s.shard is None else t.chunk(f.world, s.shard)[rank] for t, s in zip(inputs, f.inputs)]
    return [t.to(dtype).contiguous().cuda(rank) for t in cut], dtype


def graph_of(call):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            y = call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(CALLS):
            call()
    return graph


def times(work, calls, meet):
    """Microseconds of a call. `work` makes `calls` calls."""
    us = []
    for i in range(REPEATS + 3):
        a, b = torch.cuda.Event(True), torch.cuda.Event(True)
        meet()
        a.record()
        work()
        b.record()
        torch.cuda.synchronize()
        us.append(1e3 * a.elapsed_time(b) / calls)
    return us[3:]


def line(what, us):
    print(f'program,"{what}",{statistics.median(us):.3f},{min(us):.3f},{max(us):.3f},us,{len(us)}', flush=True)


def rank_of(f, rank, own, meet, results, graphs):
    torch.cuda.set_device(rank)
    inputs = whole_inputs(f)
    mine, dtype = parts(f, inputs, rank)
    y = own(*mine)
    torch.cuda.synchronize()
    results[rank] = y.cpu()
    meet()
    want = reference(inputs, dtype)
    error = ((results[rank].double() - want).norm() / want.norm()).item()
    if graphs:
        us = times(graph_of(lambda: own(*mine)).replay, CALLS, meet)
    else:  # torch records graphs of one thread at a time
        us = times(lambda: [own(*mine) for _ in range(CALLS)], CALLS, meet)
    if rank == 0:
        how = "a process a rank, in a CUDA graph" if graphs else "a thread a rank, calls from Python"
        line(f"{f.name} on {f.world} GPUs; {how}; relative error {error:.2g}", us)
    assert error < (1e-5 if dtype == torch.float32 else 2e-2), error
    return mine


def as_threads(f):
    ranks, results, meet = [f.rank(r) for r in range(f.world)], {}, Barrier(f.world)
    threads = [Thread(target=rank_of, args=(f, r, ranks[r], meet.wait, results, False)) for r in range(f.world)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    same = all(torch.equal(results[0], results[r]) for r in range(f.world))
    print("same bits on all ranks:", same)
    return 0 if same else 1


def as_processes(f):
    import torch.distributed as dist
    rank, results = int(os.environ["RANK"]), {}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    mine = rank_of(f, rank, f.rank(), dist.barrier, results, True)
    all_results = [torch.empty_like(results[rank], device="cuda") for _ in range(f.world)]
    dist.all_gather(all_results, results[rank].cuda())
    same = all(torch.equal(all_results[0], t) for t in all_results)
    x, w1, w3, w2 = mine

    def torchs():
        y = (torch.nn.functional.silu(x @ w1) * (x @ w3)) @ w2
        dist.all_reduce(y)
        return x + y
    us = times(graph_of(torchs).replay, CALLS, dist.barrier)
    if rank == 0:
        line(f"{f.name} on {f.world} GPUs; torch, eager kernels, and NCCL", us)
        print("same bits on all ranks:", same)
    dist.barrier()
    dist.destroy_process_group()
    return 0 if same else 1


program = mica.load(sys.argv[1])
sys.exit(as_processes(program) if "RANK" in os.environ else as_threads(program))
