"""bench/suites/dynamo_nodes.py: the nodes of a model that no program can have, with reasons, by graphs that are divided and not searched."""
import os
import sys

from conftest_torch import torch

sys.path.insert(0, os.path.join("bench", "suites"))


class Model(torch.nn.Module):
    def forward(self, x):
        return (x @ x).relu().logcumsumexp(0) + x.exp() * 2, x.argsort()


def test_nodes_without_a_place_are_told(monkeypatch):
    import dynamo_nodes
    from mica.torch import compiler
    monkeypatch.setitem(dynamo_nodes.MAKE, "transformers", lambda name, full: (Model(), {"x": torch.randn(8, 8)}, {}))
    monkeypatch.setattr(compiler.fuse, "fuse", dynamo_nodes.only_reasons)
    nodes, left = dynamo_nodes.nodes_of("transformers", "any")
    assert nodes == 8 and dict(left) == {"aten.logcumsumexp.default": "no row for this operator", "aten.sort.default": "no row for this operator",
                                         "getitem": "a result of a node that is left"}, (nodes, left)
