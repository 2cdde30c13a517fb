"""Remembers measured times for later processes, in the folder of compiled programs. Each verdict is a file. Its name is a hash of the measured code
(both sides), versions and device."""
from __future__ import annotations

import hashlib
import json
import os
import tempfile

import torch

from mica import _mica


def key_of(device, *what):
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads"
    text = json.dumps([torch.__version__, _mica.version(), where, *map(str, what)])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _file(folder, key):
    return os.path.join(folder, f"{key}.verdict.json")


def recall(folder, key):
    """(us, rest_us) of a verdict, or None if there is none."""
    try:
        with open(_file(folder, key), encoding="utf-8") as f:
            us, rest_us = json.load(f)
        return float(us), float(rest_us)
    except (OSError, ValueError, TypeError):
        return None


def remember(folder, key, us, rest_us):
    """Writes a verdict. Errors are ignored; the times are then measured again."""
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as f:
            json.dump([us, rest_us], f)
        os.replace(f.name, _file(folder, key))
    except OSError:
        pass
