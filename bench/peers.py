#!/usr/bin/env python3
"""bench/peers.py - what a user would pick today, measured on one NVIDIA H200.

Needs torch (written for 2.11 cu130), triton (3.6), nothing else. The modules are in peers/. Liger-Kernel, quack-kernels,
TileLang, Helion and FlashAttention are peers, too, where they are importable (peers/third/).

    python3 bench/peers.py --only '^attn/'  --budget-s 515 --tag attn
    python3 bench/peers.py --only '^(lin|moe|misc)/' --budget-s 515 --tag rest
    python3 bench/peers.py --merge peers_attn.json peers_rest.json     # table only, no torch
    python3 bench/peers.py --list                                      # workloads, no torch
    python3 bench/peers.py --families SEED ...                         # workloads that a seed draws (peers/families.py)
    python3 -m bench.peers.third --check                               # which kernels of these libraries run here

How it runs.  The process you start is a supervisor: it never imports torch.  It
starts one child (own process group) that does the measuring and writes the JSON
after every (workload, baseline) pair.  If the child hangs in one pair, crashes or
loses the CUDA context, the supervisor records that pair as failed and starts a new
child that goes on with the next pair.  The budget is counted from the start of the
supervisor.

How it times.  Each baseline is warmed up, then N launches are captured into one
CUDA graph, the graph is replayed >= 20 times, each replay is timed with
torch.cuda.Event, and median(replay)/N is the latency.  'cold': the launches rotate
among independent copies of all inputs whose total size exceeds 2.2 x L2 (outputs
rotate too).  'hot': every launch uses the same inputs.  What cannot be captured is
timed as a plain loop of launches and marked 'nograph' (host time included).

Layouts.  Attention: q [B,Hq,T,D], k/v [B,Hkv,N,D], contiguous.  Linear: x [M,K],
w [K,N] row-major ('_tn' baselines use the nn.Linear layout [N,K], converted outside
the timed region).
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(__doc__))
