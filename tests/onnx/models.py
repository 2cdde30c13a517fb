"""Models in the format of ONNX for tests: small ones, saved beside their expected outputs, and larger ones for comparisons.

    models.py FOLDER    writes every model of `all_models` with inputs and what onnxruntime makes of them
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I64, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Graph:
    """A graph being written: tensors are names."""

    def __init__(self, name, opset=17, seed=0):
        self.name, self.opset = name, opset
        self.nodes, self.inits, self.ins, self.outs = [], [], [], []
        self.random, self.count, self.feeds, self.functions = np.random.default_rng(seed), 0, {}, []

    def input(self, name, *shape, dtype=np.float32, high=None, dims=None):
        kind = {np.float32: F, np.int64: I64, np.bool_: B, np.float16: TensorProto.FLOAT16, np.int32: TensorProto.INT32}[dtype]
        self.ins.append(helper.make_tensor_value_info(name, kind, dims or shape))
        if dtype in (np.float32, np.float16):
            self.feeds[name] = self.random.standard_normal(shape).astype(dtype)
        else:
            self.feeds[name] = self.random.integers(0, high or 2, shape).astype(dtype)
        return name

    def const(self, array, name=None):
        name = name or f"c{len(self.inits)}"
        self.inits.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape, name=None, dtype=np.float32):
        scale = 1 / np.sqrt(shape[0]) if len(shape) > 1 else 1
        return self.const((self.random.standard_normal(shape) * scale).astype(dtype), name)

    def ints(self, *values):
        return self.const(np.array(values, np.int64))

    def op(self, kind, *inputs, outputs=1, name=None, domain="", **attributes):
        self.count += 1
        outs = [f"{kind.lower()}_{self.count}_{i}" if outputs > 1 else f"{kind.lower()}_{self.count}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, outs, name=name or f"/{self.name}/{kind}_{self.count}", domain=domain, **attributes))
        return outs if outputs > 1 else outs[0]

    def output(self, tensor, name, *shape, kind=F):
        self.nodes.append(helper.make_node("Identity", [tensor], [name], name=f"/{self.name}/{name}"))
        self.outs.append(helper.make_tensor_value_info(name, kind, None if shape == (None,) else shape or None))

    def model(self):
        graph = helper.make_graph(self.nodes, self.name, self.ins, self.outs, self.inits)
        domains = sorted({n.domain for n in self.nodes if n.domain})
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, 1) for d in domains]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="models.py", functions=self.functions)
        model.ir_version = 10 if self.opset > 20 or self.functions else 8
        return model


def linear(g, x, n, m, bias=True):
    y = g.op("MatMul", x, g.weight(n, m))
    return g.op("Add", g.weight(m), y) if bias else y


def erf_gelu(g, x):
    """As exporters write it before operator set 20."""
    e = g.op("Add", g.op("Erf", g.op("Div", x, g.const(np.float32(np.sqrt(2))))), g.const(np.float32(1)))
    return g.op("Mul", g.op("Mul", x, e), g.const(np.float32(0.5)))


def layer_norm(g, x, n, whole=True):
    if whole:
        return g.op("LayerNormalization", x, g.weight(n), g.weight(n), epsilon=1e-5)
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1], keepdims=1))
    variance = g.op("ReduceMean", g.op("Pow", centred, g.const(np.float32(2))), axes=[-1], keepdims=1)
    normal = g.op("Div", centred, g.op("Sqrt", g.op("Add", variance, g.const(np.float32(1e-5)))))
    return g.op("Add", g.op("Mul", normal, g.weight(n)), g.weight(n))


def attention(g, x, batch, tokens, width, heads, mask=None):
    """With the reshapes that torch exports: shapes are computed from Shape, Gather and Concat."""
    each = width // heads

    def split(t, perm):
        shape = g.op("Shape", t)
        parts = [g.op("Unsqueeze", g.op("Gather", shape, g.const(np.int64(i)), axis=0), g.ints(0)) for i in (0, 1)]
        to = g.op("Concat", *parts, g.ints(heads), g.ints(each), axis=0)
        return g.op("Transpose", g.op("Reshape", t, to), perm=perm)

    q = split(linear(g, x, width, width), [0, 2, 1, 3])
    k = split(linear(g, x, width, width), [0, 2, 3, 1])
    v = split(linear(g, x, width, width), [0, 2, 1, 3])
    s = g.op("Div", g.op("MatMul", q, k), g.const(np.float32(np.sqrt(each))))
    if mask:
        s = g.op("Add", s, mask)
    o = g.op("Transpose", g.op("MatMul", g.op("Softmax", s, axis=-1), v), perm=[0, 2, 1, 3])
    return linear(g, g.op("Reshape", o, g.ints(batch, tokens, width)), width, width)


def norm(rows=32, n=64, whole=True, opset=17, name="norm"):
    g = Graph(name, opset)
    g.output(layer_norm(g, g.input("x", rows, n), n, whole), "y", rows, n)
    return g


def gated_mlp(rows=8, n=32, wide=64, name="gated_mlp"):
    g = Graph(name, 13)
    x = g.input("x", rows, n, dims=["batch", n])
    gate = g.op("Gemm", x, g.weight(wide, n), transB=1)
    up = g.op("Gemm", x, g.weight(wide, n), transB=1)
    h = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), up)
    g.output(g.op("Gemm", h, g.weight(n, wide), transB=1), "y", "batch", n)
    return g


def attention_block(batch=2, tokens=16, width=32, heads=4, name="attention"):
    g = Graph(name, 17)
    g.output(attention(g, g.input("x", batch, tokens, width), batch, tokens, width, heads), "y", batch, tokens, width)
    return g


def bert(batch=2, tokens=16, width=32, heads=4, words=50, layers=1, name="bert"):
    """Embeddings are gathered, the mask is cast: those nodes stay, and the layer between is one program."""
    g = Graph(name, 17)
    ids = g.input("input_ids", batch, tokens, dtype=np.int64, high=words)
    seen = g.input("attention_mask", batch, tokens, dtype=np.int64)
    g.feeds[seen][:, 0] = 1
    places = g.op("Slice", g.const(np.arange(64, dtype=np.int64)[None]), g.ints(0),
                  g.op("Unsqueeze", g.op("Gather", g.op("Shape", ids), g.const(np.int64(1))), g.ints(0)), g.ints(1))
    x = g.op("Add", g.op("Gather", g.weight(words, width), ids), g.op("Gather", g.weight(64, width), places))
    x = layer_norm(g, x, width)
    mask = g.op("Cast", g.op("Unsqueeze", seen, g.ints(1, 2)), to=F)
    mask = g.op("Mul", g.op("Sub", g.const(np.float32(1)), mask), g.const(np.float32(-10000)))
    for _ in range(layers):
        x = layer_norm(g, g.op("Add", attention(g, x, batch, tokens, width, heads, mask), x), width)
        h = linear(g, erf_gelu(g, linear(g, x, width, 4 * width)), 4 * width, width)
        x = layer_norm(g, g.op("Add", h, x), width)
    g.output(x, "last_hidden_state", batch, tokens, width)
    return g


def conv_net(name="conv_net"):
    """A 3x3 convolution and pooling, which are left, before layers that are taken."""
    g = Graph(name, 13)
    x = g.input("image", 1, 3, 8, 8)
    x = g.op("Conv", x, g.weight(8, 3, 3, 3), g.weight(8), pads=[1, 1, 1, 1], name="conv1")
    x = g.op("MaxPool", g.op("Relu", x), kernel_shape=[2, 2], strides=[2, 2], name="pool")
    x = g.op("Conv", x, g.weight(4, 8, 1, 1), g.weight(4), name="pointwise")
    x = g.op("GlobalAveragePool", g.op("Relu", x))
    g.output(g.op("Gemm", g.op("Flatten", x), g.weight(4, 10), g.weight(10)), "logits", 1, 10)
    return g


def windows(name="windows"):
    """Convolutions of groups, with steps, gaps and padding of every kind, and average pooling."""
    g = Graph(name, 13)
    x = g.input("x", 1, 4, 6, 5)
    g.output(g.op("Conv", x, g.weight(6, 2, 3, 2), g.weight(6), group=2, strides=[2, 1], pads=[1, 0, 2, 1]), "grouped")
    g.output(g.op("Conv", x, g.weight(4, 1, 3, 3), group=4, dilations=[2, 2], pads=[2, 2, 2, 2]), "depthwise")
    g.output(g.op("Conv", x, g.weight(3, 4, 4, 4), strides=[2, 3], auto_pad="SAME_LOWER"), "lower")
    g.output(g.op("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), "average")
    g.output(g.op("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1), "all")
    return g


def unsupported(name="unsupported"):
    """A recurrent cell, which nothing here computes, and an operator of another domain, between layers that are taken."""
    g = Graph(name, 14)
    x = g.op("Relu", g.op("MatMul", g.input("x", 3, 1, 4), g.weight(4, 4)))
    y = g.op("RecurrentCell", x, g.weight(1, 6, 4), g.weight(1, 6, 2), outputs=2, hidden_size=2, name="cell")[1]
    z = g.op("FusedThing", g.op("Tanh", x), domain="com.example", name="thing")
    g.output(y, "state", 1, 1, 2)
    g.output(z, "z", 3, 1, 4)
    return g


def refused(name="refused"):
    """Forms and attributes that are not taken: each node is named with its reason."""
    g = Graph(name, 24)
    ms = {"domain": "com.microsoft"}
    q, x, image = g.input("q", 1, 2, 4, 8), g.input("x", 1, 4, 32), g.input("image", 1, 6, 2, 2)
    lengths = g.input("lengths", 1, dtype=np.int64)
    known = g.const(np.full(1, 3, np.int32)), g.const(np.array(4, np.int32))
    tables = g.weight(10, 4), g.weight(10, 4)
    for i, (kind, inputs, domain, extra) in enumerate([
            ("Attention", [q, q, q, "", q, q, lengths], {}, {}), ("Attention", [x, x, x], {}, {"q_num_heads": 5, "kv_num_heads": 5}),
            ("Attention", [q, q, q, g.weight(4, 5)], {}, {}), ("Attention", [q, q, g.weight(1, 2, 3, 8)], {}, {}),
            ("Attention", [q, q, q, "", q], {}, {}),
            ("RotaryEmbedding", [x, *tables, lengths], {}, {"num_heads": 4}), ("RotaryEmbedding", [q, *tables], {}, {"rotary_embedding_dim": 6}),
            ("RotaryEmbedding", [x, lengths, *tables], ms, {"scale": 2.0}), ("RotaryEmbedding", [x, lengths, *tables], ms, {"is_packed_batching": 1}),
            ("GroupQueryAttention", [x, x, x, "", "", lengths, known[1]], ms, {"num_heads": 4, "kv_num_heads": 4}),
            ("GroupQueryAttention", [x, x, x, "", "", known[1], known[1]], ms, {"num_heads": 4, "kv_num_heads": 4}),
            ("GroupQueryAttention", [x, x, x, "", "", *known, "", "", "", "", g.weight(4)], ms, {"num_heads": 4, "kv_num_heads": 4}),
            ("GroupQueryAttention", [x, x, x, "", "", *known], ms, {"num_heads": 4, "kv_num_heads": 4, "smooth_softmax": 1}),
            ("GroupQueryAttention", [x, x, x, "", "", *known], ms, {"num_heads": 4, "kv_num_heads": 3}),
            ("MultiHeadAttention", [g.weight(1, 4, 2, 3, 8), "", ""], ms, {"num_heads": 2}),
            ("MultiHeadAttention", [x, x, x, "", lengths], ms, {"num_heads": 4}),
            ("Attention", [x, g.weight(32, 96), "", "", q], ms, {"num_heads": 4}), ("Attention", [x, g.weight(32, 96)], ms, {"num_heads": 5}),
            ("FusedMatMul", [q, q], ms, {"transBatchA": 1}), ("GroupNormalization", [image, g.weight(6), g.weight(6)], {}, {"num_groups": 4})]):
        g.op(kind, *inputs, name=f"n{i}", **domain, **extra)
        g.outs.append(helper.make_tensor_value_info(g.nodes[-1].output[0], F, None))
    return g


def patches(name="patches"):
    """A convolution of patches and one of single pixels: products, both."""
    g = Graph(name, 13)
    x = g.op("Conv", g.input("image", 2, 3, 8, 8), g.weight(16, 3, 4, 4), g.weight(16), strides=[4, 4], name="patch")
    x = g.op("Conv", g.op("BatchNormalization", x, g.weight(16), g.weight(16), g.weight(16),
                          g.const(np.abs(g.random.standard_normal(16)).astype(np.float32))), g.weight(8, 16, 1, 1), name="pixel")
    x = g.op("Transpose", g.op("Reshape", x, g.ints(2, 8, -1)), perm=[0, 2, 1])
    g.output(x, "tokens", 2, 4, 8)
    return g


def grouped(name="grouped", batch=2, tokens=8, heads=4, shared=2, each=8):
    """Grouped-query attention with one product for queries, keys and values, split unequally, and a causal mask."""
    width = heads * each
    g = Graph(name, 18)
    x = g.input("x", batch, tokens, width)
    qkv = g.op("MatMul", x, g.weight(width, width + 2 * shared * each))
    q, k, v = g.op("Split", qkv, g.ints(width, shared * each, shared * each), outputs=3, axis=-1)
    q = g.op("Transpose", g.op("Reshape", q, g.ints(0, 0, heads, each)), perm=[0, 2, 1, 3])

    def spread(t, perm):
        t = g.op("Transpose", g.op("Reshape", t, g.ints(0, 0, shared, each)), perm=perm)
        t = g.op("Expand", g.op("Unsqueeze", t, g.ints(2)), g.ints(1, 1, heads // shared, 1, 1))
        return g.op("Reshape", t, g.ints(batch, heads, -1, each) if perm[2] == 1 else g.ints(batch, heads, each, -1))

    k, v = spread(k, [0, 2, 3, 1]), spread(v, [0, 2, 1, 3])
    ones = g.op("ConstantOfShape", g.ints(tokens, tokens), value=numpy_helper.from_array(np.array([1], np.bool_)))
    ones = g.op("Cast", ones, to=F)
    causal = g.op("Cast", g.op("Trilu", ones, upper=0), to=B)
    mask = g.op("Where", causal, g.const(np.float32(0)), g.const(np.float32(-1e9)))
    s = g.op("Softmax", g.op("Add", g.op("Mul", g.op("MatMul", q, k), g.const(np.float32(each ** -0.5))), mask))
    o = g.op("Reshape", g.op("Transpose", g.op("MatMul", s, v), perm=[0, 2, 1, 3]), g.ints(batch, tokens, -1))
    g.output(o, "y", batch, tokens, width)
    return g


def functions(name="functions"):
    """Calls of functions of the model: one calls another, with attributes of the call, of the function, and none; an input is left out."""
    g = Graph(name, 17)
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    scaled = helper.make_node("LeakyRelu", ["t"], ["leaky"])
    scaled.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    inner = helper.make_function("local", "steep", ["x", "shift"], ["y"],
                                 [helper.make_node("Clip", ["x", "shift"], ["t"]), scaled, helper.make_node("Neg", ["leaky"], ["y"])],
                                 opset, attributes=["slope"])
    call = helper.make_node("steep", ["a", "least"], ["c"], domain="local")
    call.attribute.add(name="slope", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    outer = helper.make_function("local", "twice", ["a", "least"], ["both", "same"],
                                 [helper.make_node("Identity", ["a"], ["same"]), call, helper.make_node("steep", ["c"], ["t"], domain="local"),
                                  helper.make_node("Add", ["t", "a"], ["both"])],
                                 opset, attribute_protos=[helper.make_attribute("slope", 0.3)])
    g.functions = [inner, outer]
    x = g.op("MatMul", g.input("x", 4, 6), g.weight(6, 6))
    first, same = g.op("twice", x, g.const(np.float32(-0.5)), outputs=2, domain="local")
    second, _ = g.op("twice", same, outputs=2, domain="local", slope=0.1)
    g.output(g.op("Add", first, second), "y", 4, 6)
    return g


def einsums(name="einsums"):
    """Equations: products, batches, sums of labels, outer products, ellipses, three terms, results that are implied or in another order."""
    g = Graph(name, 13)
    extents = dict(zip("abcdeft", (2, 3, 4, 5, 2, 3, 4)))
    equations = ["ab,bc->ac", "ab,bc->ca", "ab,bc", "abc,acd->abd", "abcd,abed->abce", "td,edf->etf", "etf,efd,te->td", "ab,ab->a", "ab,ab->",
                 "a,b->ab", "abc->ca",
                 "abc->b", "abc,cd->adb", "bac,bcd->adb", "abc,abd->cdb", "...bc,...cd->...bd", "b...,b->...", "abc,bd->ad", "Ab,bB->BA",
                 "abcd,de->abce"]
    extents.update(A=2, B=3)
    for i, equation in enumerate(equations):
        terms = [[2] * t.startswith("...") + [extents[c] for c in t.replace("...", "")] + [4] * (len(t) > 3 and t.endswith("..."))
                 for t in equation.split("->")[0].split(",")]
        inputs = [g.input(f"x{i}_{k}", *t) if k == 0 else g.weight(*t) for k, t in enumerate(terms)]
        g.output(g.op("Einsum", *inputs, equation=equation), f"y{i}")
    return g


def norms(name="norms"):
    g = Graph(name, 23)
    x, image = g.input("x", 2, 3, 8), g.input("image", 2, 6, 2, 2)
    g.output(g.op("RMSNormalization", x, g.weight(8), epsilon=1e-6), "rms")
    g.output(g.op("RMSNormalization", x, g.weight(3, 8), axis=1), "rms_two")
    g.output(g.op("RMSNormalization", x, g.weight(3, 1), axis=1), "rms_spread")
    g.output(g.op("GroupNormalization", image, g.weight(6), g.weight(6), num_groups=3), "groups")
    y, mean, deviation = g.op("LayerNormalization", x, g.weight(8), g.weight(8), outputs=3, epsilon=1e-3)
    g.output(y, "layer"), g.output(mean, "mean"), g.output(deviation, "deviation")
    g.output(g.op("LayerNormalization", x, g.weight(1), g.weight(8)), "layer_spread")
    g.output(g.op("LayerNormalization", x, g.weight(3, 8), axis=1), "layer_two")
    return g


def old_groups(name="old_groups"):
    """Before operator set 21 the weights of groups were by group."""
    g = Graph(name, 18)
    g.output(g.op("GroupNormalization", g.input("image", 2, 6, 2, 2), g.weight(3), g.weight(3), num_groups=3), "y", 2, 6, 2, 2)
    return g


def fused(name="fused"):
    """Models as onnxruntime's optimizer writes them."""
    g = Graph(name, 17)
    x = g.input("x", 2, 3, 8)
    ms = {"domain": "com.microsoft"}
    g.output(g.op("Gelu", x, **ms), "gelu"), g.output(g.op("BiasGelu", x, g.weight(8), **ms), "bias_gelu")
    g.output(g.op("FastGelu", x, g.weight(8), **ms), "fast_gelu"), g.output(g.op("FastGelu", x, **ms), "fast_gelu_alone")
    g.output(g.op("QuickGelu", x, **ms), "quick_gelu"), g.output(g.op("QuickGelu", x, alpha=1.0, **ms), "quick_silu")
    g.output(g.op("FusedMatMul", x, g.weight(2, 4, 8), transB=1, alpha=0.5, **ms), "product"), g.output(g.op("FusedMatMul", x, x, transA=1, **ms),
                                                                                                        "squares")
    y, deviation = g.op("SimplifiedLayerNormalization", x, g.weight(8), outputs=2, epsilon=1e-4)
    g.output(y, "rms"), g.output(deviation, "deviation")
    return g


def attentions(name="attentions"):
    """The operator of set 23 in its forms: 3 and 4 dimensions, grouped heads, causal, masks of floats and of bools, a past, a cap, its scores."""
    g = Graph(name, 23)
    q, k, v = g.input("q", 2, 4, 3, 4), g.input("k", 2, 2, 5, 4), g.input("v", 2, 2, 5, 6)
    g.output(g.op("Attention", q, k, v), "grouped"), g.output(g.op("Attention", q, k, v, is_causal=1, scale=0.7, softcap=2.0), "capped")
    g.output(g.op("Attention", q, k, v, g.weight(2, 4, 3, 5)), "biased"), g.output(g.op("Attention", q, k, v, g.weight(3, 5), is_causal=1), "both")
    seen = np.array([[1, 0, 1, 1, 0], [1, 1, 0, 0, 1], [0, 1, 1, 1, 1]], np.bool_)
    g.output(g.op("Attention", q, k, v, g.const(seen)), "known_bools")
    mask = g.input("mask", 2, 1, 3, 5, dtype=np.bool_)
    g.feeds[mask][..., 0] = True
    g.output(g.op("Attention", q, k, v, mask, is_causal=1), "bools")
    flat = [g.input("q3", 2, 3, 8), g.input("k3", 2, 5, 8), g.input("v3", 2, 5, 8)]
    g.output(g.op("Attention", *flat, q_num_heads=2, kv_num_heads=2), "flat")
    y, key, value, scores = g.op("Attention", q, k, v, "", g.weight(2, 2, 2, 4), g.weight(2, 2, 2, 6), outputs=4, is_causal=1,
                                 qk_matmul_output_mode=3)
    g.output(y, "later"), g.output(key, "keys"), g.output(value, "values"), g.output(scores, "scores")
    for mode in range(3):
        _, _, _, scores = g.op("Attention", q, k, v, g.weight(3, 5), outputs=4, softcap=3.0, qk_matmul_output_mode=mode)
        g.output(scores, f"scores_{mode}")
    return g


def hidden(name="hidden"):
    """Queries that every key is hidden from, by masks of bools and floats, windows and both; hidden scores that are an output."""
    g = Graph(name, 25)
    q, k, v = g.input("q", 2, 4, 3, 4), g.input("k", 2, 2, 5, 4), g.input("v", 2, 2, 5, 6)
    mask = g.input("mask", 2, 1, 3, 5, dtype=np.bool_)
    g.feeds[mask][0, 0, 1] = g.feeds[mask][1, 0, 2] = False
    g.output(g.op("Attention", q, k, v, mask), "bools"), g.output(g.op("Attention", q, k, v, mask, is_causal=1), "both")
    low = np.where(g.random.random((3, 5)) < 0.5, -np.inf, g.random.standard_normal((3, 5))).astype(np.float32)
    low[0], low[1, 1:] = -np.inf, np.finfo(np.float32).min
    low[1, 0] = -np.inf
    g.output(g.op("Attention", q, k, v, g.const(low)), "floats")
    few = [g.input("k2", 2, 4, 2, 4), g.input("v2", 2, 4, 2, 6)]
    g.output(g.op("Attention", q, *few, is_causal=1, left_window_size=0), "window")
    for mode in (2, 3):
        y, _, _, scores = g.op("Attention", q, k, v, mask, outputs=4, is_causal=1, qk_matmul_output_mode=mode)
        g.output(y, f"y_{mode}"), g.output(scores, f"scores_{mode}")
    _, _, _, scores = g.op("Attention", q, k, v, outputs=4, is_causal=1, qk_matmul_output_mode=2)
    g.output(scores, "causal_scores")
    return g


def rotary(name="rotary"):
    """Both operators of that name: halves and pairs, parts of heads, tables by token or with places, which are known or not."""
    g = Graph(name, 23)
    x, y = g.input("x", 2, 3, 4, 8), g.input("y", 2, 4, 24)
    places = g.input("places", 2, 4, dtype=np.int64, high=10)
    angles = g.random.standard_normal((10, 4))
    tables = [g.const(f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    part = [g.const(f(angles[:, :2]).astype(np.float32)) for f in (np.cos, np.sin)]
    tokens = [g.const(f(g.random.standard_normal((2, 4, 4))).astype(np.float32)) for f in (np.cos, np.sin)]
    known = g.const(np.arange(8, dtype=np.int64).reshape(2, 4))
    g.output(g.op("RotaryEmbedding", x, *tables, places), "computed"), g.output(g.op("RotaryEmbedding", x, *tokens), "tokens")
    g.output(g.op("RotaryEmbedding", x, *tables, known, interleaved=1), "pairs")
    g.output(g.op("RotaryEmbedding", x, *part, known, rotary_embedding_dim=4),
             "part"), g.output(g.op("RotaryEmbedding", x, *part, known, rotary_embedding_dim=4, interleaved=1), "pairs_part")
    g.output(g.op("RotaryEmbedding", y, *tables, known, num_heads=3), "flat")
    ms = {"domain": "com.microsoft"}
    g.output(g.op("RotaryEmbedding", y, places, *tables, **ms), "ms"), g.output(g.op("RotaryEmbedding", x, g.ints(3), *tables, interleaved=1, **ms),
                                                                                "ms_from")
    return g


def transformer(name="transformer", batch=2, tokens=4, heads=2, each=4):
    """Layers as onnxruntime's optimizer writes them: attention of one product, of three, of grouped heads that turn, norms of sums."""
    g = Graph(name, 17)
    ms, width = {"domain": "com.microsoft"}, heads * each
    x, seen = g.input("x", batch, tokens, width), g.input("seen", batch, tokens, dtype=np.int32)
    g.feeds[seen][:, 0] = 1
    y = g.op("Attention", x, g.weight(width, 3 * width), g.weight(3 * width), seen, num_heads=heads, **ms)
    y, _, _, total = g.op("SkipLayerNormalization", x, y, g.weight(width), g.weight(width), g.weight(width), outputs=4, epsilon=1e-5, **ms)
    g.output(total, "total")
    y = g.op("Attention", y, g.weight(width, 2 * width + 4), g.weight(2 * width + 4), num_heads=heads, unidirectional=1,
             qkv_hidden_sizes=[width, width, 4], **ms)
    y = g.op("MatMul", y, g.weight(4, width))
    z, key, value = g.op("MultiHeadAttention", y, x, x, g.weight(3 * width), seen, g.weight(1, heads, tokens, tokens), outputs=3, num_heads=heads,
                         scale=0.4, **ms)
    y, _, _, total = g.op("SkipSimplifiedLayerNormalization", y, z, g.weight(width), outputs=4, epsilon=1e-5, **ms)
    g.output(key, "key"), g.output(value, "value")
    past = [g.weight(batch, heads, 3, each) for _ in range(2)]
    z, _, _ = g.op("MultiHeadAttention", y, y, y, "", "", "", *past, outputs=3, num_heads=heads, unidirectional=1, **ms)
    y = g.op("SkipLayerNormalization", y, z, g.weight(width), g.weight(width), **ms)
    g.output(y, "y", batch, tokens, width)
    return g


def grouped_queries(name="grouped_queries", batch=2, tokens=3, heads=4, shared=2, each=16):
    g = Graph(name, 17)
    ms, width = {"domain": "com.microsoft", "num_heads": heads, "kv_num_heads": shared}, heads * each
    angles = g.random.standard_normal((10, each // 2))
    tables = [g.const(f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    x = g.input("x", batch, tokens, width)
    k, v = g.op("MatMul", x, g.weight(width, shared * each)), g.op("MatMul", x, g.weight(width, shared * each))
    lengths = lambda n: (g.const(np.full(batch, n - 1, np.int32)), g.const(np.array(n, np.int32)))
    y, key, value = g.op("GroupQueryAttention", x, k, v, "", "", *lengths(tokens), *tables, outputs=3, do_rotary=1, **ms)
    g.output(y, "first"), g.output(key, "key"), g.output(value, "value")
    one = g.input("one", batch, 1, width + 2 * shared * each)
    y, key, value = g.op("GroupQueryAttention", one, "", "", key, value, *lengths(tokens + 1), *tables, outputs=3, do_rotary=1, rotary_interleaved=1,
                         softcap=5.0, **ms)
    g.output(y, "next"), g.output(key, "keys")
    y, _, _ = g.op("GroupQueryAttention", x, k, v, "", "", *lengths(tokens), outputs=3, local_window_size=2, scale=0.3, **ms)
    g.output(y, "window")
    return g


def conversions(name="conversions"):
    """A norm in 32 bits of a tensor of 16, as exporters write it, widened weights, values that are really narrowed, wide results, the largest."""
    g = Graph(name, 18)
    half = TensorProto.FLOAT16
    x = g.input("x", 4, 8, dtype=np.float16)
    wide = g.op("Cast", x, to=F)
    scale = g.op("Reciprocal", g.op("Sqrt", g.op("Add", g.op("ReduceMean", g.op("Pow", wide, g.const(np.float32(2))), g.ints(-1)),
                                                 g.const(np.float32(1e-5)))))
    weight = g.const(g.random.standard_normal(8).astype(np.float16).astype(np.float32))
    y = g.op("MatMul", g.op("Cast", g.op("Mul", g.op("Mul", wide, scale), weight), to=half), g.weight(8, 8, dtype=np.float16))
    g.output(g.op("Add", x, y), "narrow", 4, 8, kind=half)
    return g


def mixed(name="mixed"):
    g = Graph(name, 18)
    x, y = g.input("x", 4, 8, dtype=np.float16), g.input("y", 4, 8)
    wide = g.op("Exp", g.op("Cast", x, to=F))
    g.output(wide, "wide", 4, 8)
    narrow = g.op("Tanh", g.op("CastLike", g.op("Mul", wide, y), x))
    g.output(g.op("Cast", g.op("Neg", narrow), to=F), "there_and_back", 4, 8)
    values, places = g.op("TopK", wide, g.ints(3), outputs=2, axis=0)
    g.output(values, "largest", 3, 8), g.output(places, "where", 3, 8, kind=I64)
    values, _ = g.op("TopK", y, g.ints(2), outputs=2, largest=0)
    g.output(g.op("Relu", values), "smallest", 4, 2)
    return g


def choices(name="choices"):
    """Data-dependent indices: conditions, indices that are inputs and indices that the program computes, ties."""
    g = Graph(name, 18)
    x, y, c = g.input("x", 4, 6), g.input("y", 4, 6), g.input("c", 4, 1, dtype=np.bool_)
    i, j = g.input("i", 2, 3, dtype=np.int64, high=4), g.input("j", 4, 2, dtype=np.int32, high=6)
    n = g.input("n", 5, dtype=np.int64, high=4)
    for index, extent in ("i", 4), ("j", 6):
        g.feeds[index] -= (extent * (g.feeds[index] % 2)).astype(g.feeds[index].dtype)  # some count from the end
    g.feeds["x"] = np.round(g.feeds["x"] * 2)  # ties
    less = g.op("Less", x, y)
    some = g.op("Or", g.op("And", less, c), g.op("Not", g.op("GreaterOrEqual", x, g.const(np.float32(1)))))
    g.output(g.op("Where", g.op("Xor", some, c), x, g.const(np.float32(9))), "chosen", 4, 6)
    g.output(g.op("Equal", x, g.const(np.float32(0))), "zeros", 4, 6, kind=B)
    values, places = g.op("TopK", x, g.ints(3), outputs=2, axis=1)
    g.output(values, "largest", 4, 3), g.output(places, "where", 4, 3, kind=I64)
    values, places = g.op("TopK", x, g.ints(2), outputs=2, axis=0, largest=0)
    g.output(values, "smallest", 2, 6), g.output(places, "there", 2, 6, kind=I64)
    g.output(g.op("ArgMax", x, axis=1), "most", 4, 1, kind=I64)
    g.output(g.op("ArgMin", x, axis=0, keepdims=0), "least", 6, kind=I64)
    table = g.weight(4, 5)
    g.output(g.op("Tanh", g.op("Gather", table, i)), "rows", 2, 3, 5)
    g.output(g.op("Tanh", g.op("Gather", table, g.op("ArgMax", y, axis=0, keepdims=0))), "rows_of_the_largest", 6, 5)
    g.output(g.op("GatherElements", x, j, axis=1), "elements", 4, 2)
    g.output(g.op("GatherElements", y, g.op("TopK", x, g.ints(2), outputs=2, axis=1)[1], axis=1), "elements_of_the_largest", 4, 2)
    g.output(g.op("Neg", g.op("GatherND", g.weight(4, 4, 3), g.op("Reshape", g.const(np.array([0, 1, 2, -1, 3, 3], np.int64)), g.ints(3, 2)))),
             "places", 3, 3)
    g.output(g.op("OneHot", n, g.ints(3), g.const(np.array([-1, 2], np.float32)), axis=0), "hot", 3, 5)
    g.output(g.op("CumSum", y, g.const(np.int64(-1))), "sums", 4, 6)
    return g


def activations(name="activations"):
    g = Graph(name, 20)
    x = g.input("x", 4, 6)
    for i, (kind, extra) in enumerate([("Relu", {}), ("LeakyRelu", {"alpha": 0.1}), ("Elu", {}), ("Selu", {}), ("Softplus", {}), ("Softsign", {}),
                                       ("HardSigmoid", {}), ("HardSwish", {}), ("Gelu", {}), ("Gelu", {"approximate": "tanh"}), ("Tanh", {}),
                                       ("Sigmoid", {}),
                                       ("LogSoftmax", {"axis": 0}), ("Abs", {}), ("Neg", {}), ("Exp", {})]):
        g.output(g.op(kind, x, **extra), f"y{i}", 4, 6)
    g.output(g.op("PRelu", x, g.weight(6)), "prelu", 4, 6)
    g.output(g.op("Clip", x, g.const(np.float32(-0.5)), g.const(np.float32(0.25))), "clip", 4, 6)
    g.output(g.op("Reciprocal", g.op("Add", g.op("Pow", x, g.const(np.float32(2))), g.const(np.float32(1)))), "reciprocal", 4, 6)
    g.output(g.op("Sub", g.const(np.float32(1)), x), "left", 4, 6)
    g.output(g.op("Pow", g.op("Abs", x), g.const(np.float32(1.5))), "power", 4, 6)
    g.output(g.op("Max", x, g.const(np.float32(0.1)), g.op("Neg", x)), "largest", 4, 6)
    g.output(g.op("Mean", x, g.op("Abs", x), g.const(np.float32(3))), "average", 4, 6)
    return g


def reductions(name="reductions"):
    g = Graph(name, 18)
    x = g.input("x", 2, 3, 4)
    for i, (kind, axes, keep) in enumerate([("ReduceSum", [1], 1), ("ReduceSum", [0, 2], 0), ("ReduceMean", [-1], 0), ("ReduceMax", [1, 2], 1),
                                            ("ReduceMin", [0], 0),
                                            ("ReduceSumSquare", [2], 1), ("ReduceL1", [1], 0), ("ReduceL2", [1], 1)]):
        g.output(g.op(kind, x, g.ints(*axes), keepdims=keep), f"y{i}")
    g.output(g.op("ReduceMean", x, keepdims=0), "all")
    g.output(g.op("GlobalAveragePool", g.op("Reshape", x, g.ints(1, 2, 3, 4))), "pool", 1, 2, 1, 1)
    g.output(g.op("InstanceNormalization", x, g.weight(3), g.weight(3)), "instance", 2, 3, 4)
    return g


def movement(name="movement"):
    """Views that Mica has, slices of unequal parts, and what is left: gathers, padding, negative steps."""
    g = Graph(name, 18)
    x = g.input("x", 4, 6)
    i = g.input("i", 3, dtype=np.int64, high=4)
    y = g.op("Exp", x)
    g.output(g.op("Slice", y, g.ints(1), g.ints(3), g.ints(1)), "slice", 4, 2)
    g.output(g.op("Slice", y, g.ints(-1), g.ints(-100), g.ints(0), g.ints(-1)), "backwards", 4, 6)
    g.output(g.op("Gather", y, g.const(np.int64(2)), axis=0), "row", 6)
    g.output(g.op("Gather", y, g.ints(0, 1, 5), axis=1), "columns", 4, 3)
    g.output(g.op("Gather", y, i, axis=0), "rows", 3, 6)
    g.output(g.op("Concat", y, g.op("Neg", y), axis=1), "both", 4, 12)
    g.output(g.op("Tile", y, g.ints(2, 1)), "tiled", 8, 6)
    g.output(g.op("Expand", g.op("Unsqueeze", y, g.ints(0)), g.ints(3, 1, 1)), "spread", 3, 4, 6)
    g.output(g.op("Pad", y, g.ints(0, 1, 0, 2)), "padded", 4, 9)
    a, b, c = g.op("Split", y, outputs=3, axis=1, num_outputs=3)
    g.output(g.op("Add", a, g.op("Mul", b, c)), "parts", 4, 2)
    g.output(g.op("MatMul", g.op("Squeeze", g.op("Gather", y, g.ints(1), axis=0), g.ints(0)), g.op("Transpose", y)), "vector", 4)
    g.output(g.op("CumSum", g.op("Cast", i, to=F), g.const(np.int64(0))), "running", 3)
    g.output(g.op("Flatten", g.op("Reshape", y, g.ints(2, 0, -1, 2)) if False else g.op("Reshape", y, g.ints(2, 2, -1))), "flat", 2, 12)
    return g


def old_softmax(name="old_softmax"):
    """Before operator set 13 the softmax is of all dimensions from its axis on."""
    g = Graph(name, 11)
    x = g.input("x", 2, 3, 4)
    g.output(g.op("Softmax", x, axis=1), "y", 2, 3, 4)
    g.output(g.op("Squeeze", g.op("ReduceSum", g.op("Unsqueeze", x, axes=[0]), axes=[2], keepdims=1), axes=[0, 2]), "z", 2, 4)
    g.output(g.op("Slice", g.op("Clip", x, g.const(np.float32(-1)), g.const(np.float32(1))), g.ints(0), g.ints(2), g.ints(2)), "s", 2, 3, 2)
    return g


def two_programs(name="two_programs"):
    """A node that nobody can express in the middle: two programs, with a path around it that must not join them."""
    g = Graph(name, 17)
    x = g.input("x", 4, 8)
    a = g.op("Relu", g.op("MatMul", x, g.weight(8, 8)))
    b = g.op("Floor", a)
    g.output(g.op("Add", g.op("MatMul", b, g.weight(8, 8)), a), "y", 4, 8)
    return g


def constants(name="constants"):
    """Numbers as nodes of their own, as torch writes them: the gelu is found all the same."""
    g = Graph(name, 13)
    x = g.op("MatMul", g.input("x", 4, 8), g.weight(8, 8))

    def number(c):
        return g.op("Constant", value=numpy_helper.from_array(np.array(c, np.float32)))

    e = g.op("Add", g.op("Erf", g.op("Div", x, number(np.sqrt(2)))), number(1))
    g.output(g.op("Mul", g.op("Mul", x, number(0.5)), e), "y", 4, 8)
    return g


def simple_elements(name="simple_elements"):
    """Operators of elements, types and running sums that Mica's language does not have."""
    g = Graph(name, 26)
    x, i, j = g.input("x", 3, 4), g.input("i", 3, 4, dtype=np.int32, high=9), g.input("j", 4, dtype=np.int32, high=9)
    for kind, more in (("Atan", {}), ("Sinh", {}), ("Asinh", {}), ("Mish", {}), ("Celu", {"alpha": 0.5}), ("Shrink", {"lambd": 0.4, "bias": 0.1}),
                       ("ThresholdedRelu", {"alpha": 0.2})):
        g.output(g.op(kind, x, **more), kind.lower(), 3, 4)
    g.output(g.op("IsInf", g.op("Div", x, g.const(np.array([0, 1, 2, 3], np.float32)))), "infinite", 3, 4, kind=B)
    for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod"):
        g.output(g.op(kind, i, g.op("Add", j, g.const(np.array(1, np.int32)))), kind.lower(), 3, 4, kind=TensorProto.INT32)
    g.output(g.op("Pow", x, g.op("Cast", j, to=I64)), "power", 3, 4)
    g.output(g.op("CumSum", x, g.const(np.array(1, np.int64)), exclusive=1, reverse=1), "sums", 3, 4)
    g.output(g.op("CumProd", x, g.const(np.array(0, np.int64))), "products", 3, 4)
    g.output(g.op("ArgMin", i, axis=1, select_last_index=1), "least", 3, 1, kind=I64)
    for kind in (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2FNUZ, TensorProto.INT4):
        g.output(g.op("Cast", g.op("Cast", g.op("Mul", x, g.const(np.array(3, np.float32))), to=kind), to=F), f"through_{kind}", 3, 4)
    return g


def simple_places(name="simple_places"):
    """Operators that read and write by indices, and those whose result is as large as its elements say."""
    g = Graph(name, 20)
    x, at = g.input("x", 4, 5), g.input("at", 2, 5, dtype=np.int64, high=4)
    u = g.op("Mul", x, x)
    g.output(g.op("ScatterElements", x, at, g.op("Slice", u, g.ints(0), g.ints(2)), axis=0, reduction="add"), "added", 4, 5)
    g.output(g.op("ScatterND", x, g.const(np.array([[1], [3]], np.int64)), g.op("Slice", u, g.ints(0), g.ints(2)), reduction="max"), "put", 4, 5)
    g.output(g.op("GatherND", x, g.const(np.array([[0, 1], [3, 4]], np.int64))), "picked", 2)
    g.output(g.op("ReverseSequence", x, g.const(np.array([3, 1, 4, 5], np.int64)), batch_axis=0, time_axis=1), "reversed", 4, 5)
    where = g.op("NonZero", g.op("Greater", x, g.const(np.array(0, np.float32))))
    rows = g.op("Gather", where, g.const(np.array(0, np.int64)), axis=0)
    g.output(g.op("Softmax", g.op("MatMul", g.op("Gather", x, rows, axis=0), g.weight(5, 2))), "chosen", None)
    g.output(g.op("Unique", at, sorted=0, outputs=4)[0], "distinct", None, kind=I64)
    g.output(g.op("Compress", x, g.op("Greater", g.op("ReduceSum", x, g.ints(0), keepdims=0), g.const(np.array(0, np.float32))), axis=1), "columns",
             None)
    for mode in ("reflect", "edge", "wrap"):
        g.output(g.op("Pad", x, g.ints(1, 2, -1, 3), mode=mode), mode, 4, 10)
    g.output(g.op("CenterCropPad", x, g.ints(6, 3)), "centred", 6, 3)
    return g


def simple_images(name="simple_images"):
    """Images made larger and smaller, windows, blocks of pixels."""
    g = Graph(name, 20)
    x = g.input("x", 1, 4, 4, 6)
    empty = g.const(np.array([], np.float32))
    for k, more in enumerate(({"mode": "cubic"}, {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
                              {"mode": "nearest", "nearest_mode": "ceil"}, {"mode": "linear", "antialias": 1})):
        g.output(g.op("Resize", x, empty, g.const(np.array([1, 1, 0.6, 1.7], np.float32)), **more), f"resized_{k}", 1, 4, 2, 10)
    g.output(g.op("DepthToSpace", x, blocksize=2, mode="CRD"), "space", 1, 1, 8, 12)
    g.output(g.op("SpaceToDepth", x, blocksize=2), "depth", 1, 16, 2, 3)
    g.output(g.op("ConvTranspose", x, g.weight(4, 2, 3, 3), strides=[2, 1], pads=[1, 0, 0, 1]), "spread", 1, 2, 8, 7)
    g.output(g.op("LpPool", x, kernel_shape=[2, 3], p=3), "norms", 1, 4, 3, 4)
    g.output(g.op("MaxPool", x, kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1, outputs=2)[1], "where", 1, 4, 2, 2, kind=I64)
    g.output(g.op("GridSample", x, g.op("Tanh", g.weight(1, 3, 2, 2)), padding_mode="reflection"), "sampled", 1, 4, 3, 2)
    g.output(g.op("LRN", x, size=3), "lrn", 1, 4, 4, 6)
    return g


def simple_learning(name="simple_learning"):
    """Losses, quantization and recurrences."""
    g = Graph(name, 20)
    x, y = g.input("x", 3, 5), g.input("y", 3, dtype=np.int64, high=5)
    g.output(g.op("SoftmaxCrossEntropyLoss", x, y, g.weight(5), ignore_index=1), "entropy")
    g.output(g.op("NegativeLogLikelihoodLoss", g.op("LogSoftmax", x), y, reduction="sum"), "likelihood")
    scale, zero = g.const(np.array([0.1, 0.2, 0.3, 0.4, 0.5], np.float32)), g.const(np.array([0, 1, 2, 3, 4], np.int8))
    q = g.op("QuantizeLinear", x, scale, zero, axis=1)
    g.output(g.op("DequantizeLinear", q, scale, zero, axis=1), "rounded", 3, 5)
    g.output(g.op("MatMulInteger", q, g.const(np.arange(-5, 5, dtype=np.int8).reshape(5, 2)), g.const(np.array(1, np.int8))), "integers", 3, 2,
             kind=TensorProto.INT32)
    s = g.input("s", 4, 2, 3)
    for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        w, r, b = g.weight(1, gates * 2, 3), g.weight(1, gates * 2, 2), g.weight(1, gates * 4)
        g.output(g.op(kind, s, w, r, b, hidden_size=2, outputs=2)[0], kind.lower(), 4, 1, 2, 2)
    return g


def simple_loops(name="simple_loops"):
    """A branch, a loop that ends by a condition, and a scan that carries a sum; all read values from around."""
    g = Graph(name, 20)
    x, n = g.input("x", 4, 3), g.input("n", dtype=np.int64, high=2)
    node, info = helper.make_node, helper.make_tensor_value_info
    c = g.const(np.array(0.5, np.float32), "half")
    branches = [helper.make_graph([node(kind, [x, c], [kind])], kind, [], [info(kind, F, None)]) for kind in ("Add", "Mul")]
    g.output(g.op("If", g.op("Cast", n, to=B), then_branch=branches[0], else_branch=branches[1]), "branch", 4, 3)
    body = helper.make_graph([node("Mul", ["v", c], ["v2"]), node("Add", ["v2", x], ["v3"]), node("ReduceMax", ["v3"], ["m"], keepdims=0),
                              node("Less", ["m", "most"], ["again"])], "body",
                             [info("turn", I64, []), info("before", B, []), info("v", F, None)],
                             [info("again", B, []), info("v3", F, None), info("m", F, [])])
    g.const(np.array(3, np.float32), "most")
    v, m = g.op("Loop", g.const(np.array(6, np.int64)), "", x, body=body, outputs=2)
    g.output(v, "carried", 4, 3), g.output(m, "largest", None)
    body = helper.make_graph([node("Add", ["sum", "row"], ["sum2"]), node("Mul", ["sum2", c], ["out"])], "rows",
                             [info("sum", F, [3]), info("row", F, [3])], [info("sum2", F, [3]), info("out", F, [3])])
    last, rows = g.op("Scan", g.const(np.zeros(3, np.float32)), x, body=body, num_scan_inputs=1, scan_input_directions=[1], outputs=2)
    g.output(last, "total", 3), g.output(rows, "rows", 4, 3)
    return g



SMALL = [constants, lambda: norm(8, 16), lambda: norm(8, 16, False, 13, "norm_parts"), lambda: gated_mlp(8, 16, 24),
         lambda: attention_block(1, 4, 8, 2), lambda: bert(1, 4, 8, 2, 12),
         conv_net, windows, patches, lambda: grouped(batch=1, tokens=4, heads=4, shared=2, each=2), activations, reductions, movement, old_softmax,
         two_programs, functions,
         einsums, norms, old_groups, fused, attentions, rotary, transformer, grouped_queries, conversions, mixed, choices, simple_places,
         simple_images, simple_learning,
         simple_loops]
LARGE = [lambda: norm(128, 256, name="norm_large"), lambda: attention_block(2, 64, 128, 4, "attention_large"),
         lambda: bert(2, 32, 128, 4, 500, 2, "bert_large"),
         lambda: gated_mlp(8, 256, 512, "gated_large")]


DEFINED = [hidden, simple_elements]  # answered by the package onnx, whose evaluator is the definition: runtimes differ in these
UNANSWERED = [unsupported, refused]  # there is nothing to run


def answers_of(path, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def defined_answers(path, feeds):
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(path)
    return dict(zip(session.output_names, session.run(None, feeds)))


def save(g, folder, answers=answers_of):
    model = g.model()
    path = os.path.join(folder, g.name + ".onnx")
    onnx.save(model, path)
    return path, answers and answers(path, g.feeds)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for make in SMALL:
        g = make()
        path, answers = save(g, sys.argv[1])
        np.savez(os.path.join(sys.argv[1], g.name + ".npz"), **{"in_" + k: v for k, v in g.feeds.items()},
                 **{"out_" + k: v for k, v in answers.items()})
        print(path, os.path.getsize(path))
    for make in UNANSWERED:
        save(make(), sys.argv[1], answers=None)
