"""Peers of libraries that are installed beside torch: Liger-Kernel, quack, TileLang, Helion, FlashAttention.

attention.py and rows.py tell which workloads a library computes; both give baselines that import the library when they are measured. One
that is not importable, or whose kernel fails, is n/a in the table with the reason.
"""
from . import attention, rows  # noqa: F401
