"""A Llama decoder layer by torch.compile(backend="mica"): what is taken, and the times of eager and of Mica.

    python examples/python/torch_llama.py [SECONDS]      # of the search, 60 unless given
"""
import sys

import torch
import torch_models

import mica.torch
from mica.torch.measure import race

model = torch_models.LlamaLayer(d=512, heads=8, groups=2, ffn=1408).eval()
inputs = (torch.randn(1, 64, 512), *torch_models.rotary(64, 64))
options = {"time": float(sys.argv[1]) if len(sys.argv) > 1 else 60, "rest": "eager"}
with torch.no_grad():
    print(mica.torch.explain(model, *inputs, options=options))
    compiled = torch.compile(model, backend=mica.torch.backend, options=options)
    error = (compiled(*inputs) - model(*inputs)).norm() / model(*inputs).norm()
    ours, eager = race(lambda: compiled(*inputs), lambda: model(*inputs), inputs[0].device, 2)
print(f"relative norm of the difference {error:.1g}; Mica {ours:.0f} us, eager {eager:.0f} us")
assert error < 1e-4
