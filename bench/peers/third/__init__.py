"""Optional peers: Liger-Kernel, quack, TileLang, Helion and FlashAttention.

attention.py and rows.py map workloads to kernels of these libraries. A baseline imports its library when it is measured. If the import or
the kernel fails, the table has n/a and the reason.
"""
from . import attention, rows  # noqa: F401
