"""Language models as persistent kernels, from Python (docs/mega.md).

    from mica import mega

    model = mega.from_config("config.json", rows=8, pages=64).random(seed=1)
    print(model.prove())
    answers = model.generate([[1, 2, 3], [4, 5]], max_tokens=16)

A step computes `rows` tokens at once. They may belong to different requests, at different positions. Requests share a cache of `pages` pages.
Engines are "cpu" (threads, float32) and "gpu" (one cooperative launch of the emitted kernel).
"""
from .batch import Batch, Request
from .kernel import PersistentKernel
from .model import Model, Row, from_config, from_folder, from_text
from .weights import read_safetensors

__all__ = ["Batch", "Model", "PersistentKernel", "Request", "Row", "from_config", "from_folder", "from_text", "read_safetensors"]
