"""Peers of all_reduce.cu on the GPUs of this machine, in CUDA graphs: NCCL's all-reduce through torch.distributed, torch's one-shot kernel over
symmetric memory, and a decode step of Llama-3.1-8B with tensor parallelism in torch, with NCCL.

    NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 python3 bench/mega/all_reduce_peers.py [GPUS]

Lines are what, setting, median, least, most, unit, repeats, as those of all_reduce.cu. NVLink multicast stays off.
"""

import os
import statistics
import sys

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
os.environ.setdefault("NVSHMEM_DISABLE_NVLS", "1")

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

HIDDEN, INNER, HEADS, KV, DIM, LAYERS, VOCAB, CONTEXT = 4096, 14336, 32, 8, 128, 32, 128256, 128
CALLS, REPEATS = 100, 15


def graph_of(work):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def measure(rank, setting, graph, calls, what="all-reduce"):
    """Microseconds of one of `calls` calls in the graph."""
    us = []
    for i in range(REPEATS + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        dist.barrier()
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= 3:
            us.append(1e3 * begin.elapsed_time(end) / calls)
    if rank == 0:
        print(f'{what},"{setting}",{statistics.median(us):.3f},{min(us):.3f},{max(us):.3f},us,{len(us)}', flush=True)


def reductions(rank, world):
    for rows in (1, 4, 8, 64):
        x = torch.full((rows, HIDDEN), float(rank + 1), dtype=torch.bfloat16, device="cuda")
        dist.all_reduce(x)
        assert torch.all(x == world * (world + 1) / 2), "NCCL's sum"
        x.fill_(0)

        def many():
            for _ in range(CALLS):
                dist.all_reduce(x)

        measure(rank, f"{world} GPUs; {rows} x {HIDDEN} bf16; NCCL {torch.cuda.nccl.version()} in a CUDA graph", graph_of(many), CALLS)


def symmetric(rank, world):
    import torch.distributed._symmetric_memory as symm

    for rows in (1, 4, 8):
        x = symm.empty(rows * HIDDEN, dtype=torch.bfloat16, device=torch.device("cuda", rank))
        symm.rendezvous(x, dist.group.WORLD)
        x.fill_(rank + 1)
        y = torch.ops.symm_mem.one_shot_all_reduce(x, "sum", dist.group.WORLD.group_name)
        assert torch.all(y == world * (world + 1) / 2), "the sum of the one-shot kernel"

        def many():
            for _ in range(CALLS):
                torch.ops.symm_mem.one_shot_all_reduce(x, "sum", dist.group.WORLD.group_name)

        measure(rank, f"{world} GPUs; {rows} x {HIDDEN} bf16; torch's one-shot kernel over symmetric memory in a CUDA graph", graph_of(many), CALLS)


class Step:
    """A decode step of one row with weights of this rank's shard: products, attention over cached positions, all-reduce after o and down."""

    def __init__(self, world):
        def weights(n, k):
            return torch.randn(n, k, dtype=torch.bfloat16, device="cuda") / k**0.5

        self.heads, self.kv, inner = HEADS // world, KV // world, INNER // world
        wide = (self.heads + 2 * self.kv) * DIM
        self.layers = [(weights(wide, HIDDEN), weights(HIDDEN, self.heads * DIM), weights(2 * inner, HIDDEN),
                        weights(HIDDEN, inner)) for _ in range(LAYERS)]
        self.keys = torch.randn(LAYERS, 1, self.kv, CONTEXT, DIM, dtype=torch.bfloat16, device="cuda")
        self.head = weights(VOCAB // world, HIDDEN)
        self.gain = torch.ones(HIDDEN, dtype=torch.bfloat16, device="cuda")
        self.x = torch.randn(1, HIDDEN, dtype=torch.bfloat16, device="cuda")

    def __call__(self):
        f = torch.nn.functional
        h = self.x
        for i, (qkv, o, gate_up, down) in enumerate(self.layers):
            q = f.linear(f.rms_norm(h, (HIDDEN,), self.gain), qkv)[:, : self.heads * DIM].view(1, self.heads, 1, DIM)
            a = f.scaled_dot_product_attention(q, self.keys[i], self.keys[i], enable_gqa=True).view(1, -1)
            y = f.linear(a, o)
            dist.all_reduce(y)
            h = h + y
            g, u = f.linear(f.rms_norm(h, (HIDDEN,), self.gain), gate_up).chunk(2, -1)
            y = f.linear(f.silu(g) * u, down)
            dist.all_reduce(y)
            h = h + y
        logits = f.linear(f.rms_norm(h, (HIDDEN,), self.gain), self.head)
        best = torch.stack([v.float() for v in logits.max(-1)]).contiguous()
        parts = best.new_empty((dist.get_world_size(), *best.shape))
        dist.all_gather_into_tensor(parts, best)
        return parts


def work(rank, world, port):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    parts = {"reductions": lambda: reductions(rank, world), "symmetric": lambda: symmetric(rank, world)}
    for name, part in parts.items():
        try:
            part()
        except Exception as e:  # a peer that is not there is said, and the others are measured
            print(f"# rank {rank}: {name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
    with torch.no_grad():
        measure(rank, f"{world} GPUs; Llama-3.1-8B; 1 row; context {CONTEXT}; torch and NCCL in a CUDA graph, eager kernels", graph_of(Step(world)),
                1, "step")
    torch.cuda.synchronize()
    dist.barrier()
    os._exit(0)  # graphs hold the communicator, whose end is not measured


if __name__ == "__main__":
    gpus = int(sys.argv[1]) if len(sys.argv) > 1 else torch.cuda.device_count()
    mp.spawn(work, args=(gpus, 29500 + os.getpid() % 1000), nprocs=gpus)
