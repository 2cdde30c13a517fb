"""The workloads of bench/cpu_peers.py: the program of Mica, its reference in float64, and the forms of the peers."""
import numpy as np


class Work:
    def __init__(self, name, program, params, inputs, reference):
        self.name, self.program, self.params = name, program, params
        self.file = "examples/%s.mica" % program
        self.inputs = inputs  # (shape, factor of normal numbers)
        self.reference = reference


# ---- float64 ----

def softmax64(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention64(q, k, v):
    return softmax64(q @ k) @ v


def norm64(x, scale, shift):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5) * scale + shift


def rms64(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True))


def ntrans64(x, h, alpha):
    return rms64(x + alpha * (rms64(h) + x))


def ntrans(m):
    return Work("m_ntrans m=%d" % m, "m_ntrans", {"m": m}, [((m, 4096), 1)] * 3, ntrans64)


WORK = [Work("m_gqa", "m_gqa", {}, [((2, 256, 64), 0.2), ((2, 64, 4096), 0.2), ((2, 4096, 64), 1)], attention64),
        Work("layer norm [4096, 1024]", "g_norm", {}, [((4096, 1024), 1), ((1024,), 1), ((1024,), 1)], norm64),
        Work("softmax [4096, 4096]", "softmax", {}, [((4096, 4096), 1)], softmax64),
        ntrans(8), ntrans(64)]


# ---- jax ----

def jax_forms(work):
    import jax
    import jax.numpy as jnp

    def rms(x):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True))

    def norm(x, scale, shift):
        m = x.mean(-1, keepdims=True)
        d = x - m
        return d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def written(q, k, v):
        e = jnp.exp(q @ k)
        return (e / e.sum(-1, keepdims=True)) @ v

    def norm_of_moments(x, scale, shift):
        m = x.mean(-1, keepdims=True)
        return (x - m) * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) - m * m + 1e-5) * scale + shift

    return {
        "m_gqa": [("exp, sum", written), ("softmax", lambda q, k, v: jax.nn.softmax(q @ k, -1) @ v),
                  ("softmax of einsum", lambda q, k, v: jnp.einsum(
                      "bqk,bkd->bqd", jax.nn.softmax(jnp.einsum("bqd,bdk->bqk", q, k), -1), v))],
        "g_norm": [("moments of differences", norm), ("moments of squares", norm_of_moments)],
        "softmax": [("jax.nn.softmax", lambda x: jax.nn.softmax(x, -1))],
        "m_ntrans": [("as written", lambda x, h, a: rms(x + a * (rms(h) + x)))],
    }[work.program]


# ---- onnx ----

def model(nodes, work, names, shape, extra=(), opset=17, domains=()):
    import onnx
    from onnx import TensorProto, helper
    ins = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, (s, _) in zip(names, work.inputs)]
    out = helper.make_tensor_value_info("Y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", ins, [out], initializer=list(extra))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    made = helper.make_model(graph, opset_imports=imports)
    made.ir_version = min(made.ir_version, onnx.IR_VERSION, 10)
    return made


def onnx_gqa(work, shape):
    from onnx import helper
    node, names = helper.make_node, ["Q", "K", "V"]
    yield "Softmax", model([node("MatMul", ["Q", "K"], ["S"]), node("Softmax", ["S"], ["P"], axis=-1),
                            node("MatMul", ["P", "V"], ["Y"])], work, names, shape)
    ints = [helper.make_tensor("last", 7, [1], [2])]
    yield "Exp, ReduceSum", model([node("MatMul", ["Q", "K"], ["S"]), node("Exp", ["S"], ["E"]),
                                   node("ReduceSum", ["E", "last"], ["D"], keepdims=1), node("Div", ["E", "D"], ["P"]),
                                   node("MatMul", ["P", "V"], ["Y"])], work, names, shape, ints)
    heads = work.inputs[0][0][0]
    four = [helper.make_tensor("zero", 7, [1], [0])]
    around = [node("Unsqueeze", ["Q", "zero"], ["Q4"]), node("Transpose", ["K"], ["Kt"], perm=[0, 2, 1]),
              node("Unsqueeze", ["Kt", "zero"], ["K4"]), node("Unsqueeze", ["V", "zero"], ["V4"])]
    yield "Attention of opset 23", model(
        around + [node("Attention", ["Q4", "K4", "V4"], ["Y4"], scale=1.0), node("Squeeze", ["Y4", "zero"], ["Y"])],
        work, names, shape, four, opset=23)
    # MultiHeadAttention has a flash attention: query [1, 256, heads * 64], keys and values [1, heads, 4096, 64]
    flat = [helper.make_tensor("flat", 7, [3], [1, 256, heads * 64]), helper.make_tensor("by", 7, [3], [256, heads, 64])]
    yield "MultiHeadAttention", model(
        around[1:] + [node("Transpose", ["Q"], ["Qt"], perm=[1, 0, 2]), node("Reshape", ["Qt", "flat"], ["Q3"]),
                      node("MultiHeadAttention", ["Q3", "K4", "V4"], ["Y3"], num_heads=heads, scale=1.0,
                           domain="com.microsoft"),
                      node("Reshape", ["Y3", "by"], ["Yt"]), node("Transpose", ["Yt"], ["Y"], perm=[1, 0, 2])],
        work, names, shape, four + flat, domains=["com.microsoft"])


def onnx_norm(work, shape):
    from onnx import helper
    yield "LayerNormalization", model([helper.make_node("LayerNormalization", ["X", "scale", "shift"], ["Y"], axis=-1,
                                                        epsilon=1e-5)], work, ["X", "scale", "shift"], shape)


def onnx_softmax(work, shape):
    from onnx import helper
    yield "Softmax", model([helper.make_node("Softmax", ["X"], ["Y"], axis=-1)], work, ["X"], shape)


def onnx_ntrans(work, shape):
    from onnx import helper
    node, names, n = helper.make_node, ["X", "H", "alpha"], work.inputs[0][0][1]
    ones = [helper.make_tensor("ones", 1, [n], [1.0] * n)]

    def fused(op, **more):
        return [node(op, ["H", "ones"], ["R"], axis=-1, epsilon=0.0, **more), node("Add", ["R", "X"], ["A"]),
                node("Mul", ["alpha", "A"], ["M"]), node("Add", ["X", "M"], ["S"]),
                node(op, ["S", "ones"], ["Y"], axis=-1, epsilon=0.0, **more)]
    yield "SimplifiedLayerNormalization", model(fused("SimplifiedLayerNormalization"), work, names, shape, ones)
    yield "RMSNormalization of opset 23", model(fused("RMSNormalization"), work, names, shape, ones, opset=23)
    # the second norm reads the second sum
    skip = fused("SimplifiedLayerNormalization")[:3] + [
        node("SkipSimplifiedLayerNormalization", ["X", "M", "ones"], ["Y"], epsilon=0.0, domain="com.microsoft")]
    yield "SkipSimplifiedLayerNormalization", model(skip, work, names, shape, ones, domains=["com.microsoft"])


def onnx_forms(work, shape):
    return {"m_gqa": onnx_gqa, "g_norm": onnx_norm, "softmax": onnx_softmax, "m_ntrans": onnx_ntrans}[work.program](
        work, shape)
