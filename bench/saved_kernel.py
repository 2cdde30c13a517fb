"""Compiles and loads the C of a program that `mica optimize --target cpu --out DIR` saved."""
import ctypes
import os
import subprocess


def saved_kernel(folder):
    """The ctypes library of folder/kernel.c, compiled with the flags that the head of folder/kernel.h names."""
    with open(os.path.join(folder, "kernel.h")) as f:
        line = next(s for s in f if s.startswith("//   cc ")).split()[2:]
    library = os.path.join(folder, "kernel.so")
    flags = [s for s in line if s not in ("-c", "kernel.c")]
    subprocess.run(["cc", *flags, "-w", "-shared", "-fPIC", os.path.join(folder, "kernel.c"), "-o", library, "-lm"], check=True)
    return ctypes.CDLL(library)
