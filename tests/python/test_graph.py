"""Programs built from Python are those of the language: shapes, numbers, errors."""
import inspect

import pytest

import mica
from mica import _mica, _ops


def text_of(function, *shapes):
    return mica.trace(function, [mica.Spec(s) for s in shapes]).text


def language(body, *shapes, name="f"):
    """The library's own text of a program in the language."""
    inputs = "\n".join(f"  {n}: f32{list(s)}" for n, s in zip("xyz", shapes))
    return _mica.Context().load_text(f"program {name} {{\n{inputs}\n  return {body}\n}}", "test", ()).text


SAME = [
    ("x + y", lambda x, y: x + y), ("x * 0.5 - 1", lambda x, y: x * 0.5 - 1), ("2 * x / 4", lambda x, y: 2 * x / 4),
    ("1 - x", lambda x, y: 1 - x), ("1 / x", lambda x, y: 1 / x), ("x - -1", lambda x, y: x - -1),
    ("pow(x, 2)", lambda x, y: x ** 2), ("pow(x, -0.5)", lambda x, y: x ** -0.5), ("-x", lambda x, y: -x), ("abs(x)", lambda x, y: abs(x)),
    ("where(x < y, x, y)", lambda x, y: mica.where(x < y, x, y)), ("where(x <= 2, x, y)", lambda x, y: mica.where(x <= 2, x, y)),
    ("where(0 < x, x, y)", lambda x, y: mica.where(x > 0, x, y)), ("where(y <= x, x, y)", lambda x, y: mica.where(x >= y, x, y)),
    ("maximum(x, 0)", lambda x, y: mica.maximum(x, 0)), ("sum(x, dim=-1)", lambda x, y: x.sum(-1)),
    ("sum(x, dim=1, group=4)", lambda x, y: mica.sum(x, 1, group=4)), ("clamp(x, -1, inf)", lambda x, y: x.clamp(-1, float("inf"))),
    ("transpose(x)", lambda x, y: x.T), ("transpose(x, perm=[1, 0])", lambda x, y: x.transpose([1, 0])),
    ("reshape(x, [2, -1])", lambda x, y: x.reshape([2, -1])), ("concat(x, y, dim=0)", lambda x, y: mica.concat(x, y, dim=0)),
    ("matmul(x, transpose(y))", lambda x, y: x @ y.T), ("rms_norm(x, eps=1e-6)", lambda x, y: mica.rms_norm(x, eps=1e-6)),
    ("chunk(x, dim=1, parts=2, index=1)", lambda x, y: x.chunk(1, 2, 1)), ("softmax(x, dim=1)", lambda x, y: x.softmax(1)),
    ("softmax(x, y, dim=1)", lambda x, y: mica.softmax(x, 1, mask=y)),
]


@pytest.mark.parametrize("body,function", SAME, ids=[b for b, _ in SAME])
def test_as_in_the_language(body, function):
    def f(x, y):
        return function(x, y)
    assert text_of(f, (4, 8), (4, 8)) == language(body, (4, 8), (4, 8))


def test_every_operator_is_a_function_with_its_attributes():
    for name in _ops.__all__:
        parameters = inspect.signature(getattr(mica, name)).parameters
        for attribute in _ops.ATTRIBUTES[name]:
            assert attribute in parameters, name
        assert getattr(mica, name).__doc__
    assert len(_ops.__all__) > 40 and {"softmax", "accum", "concat"} <= set(_ops.__all__)


def test_shapes_are_known_at_once():
    g = mica.Graph()
    x, y = g.input("X", (4, 8), "f16"), g.input("Y", (8,))
    assert (x + y).shape == (4, 8) and (x + y).dtype == "f32" and (x * 2).dtype == "f16"
    a, b = mica.split(x, dim=1, parts=2)
    assert a.shape == b.shape == (4, 4) and (a @ b.T).shape == (4, 4) and x.ndim == 2
    assert mica.layer_norm(x, y, y).shape == (4, 8)
    assert repr(x) == "<mica.Tensor f16[4, 8]>"


def test_numbers_of_numpy():
    np = pytest.importorskip("numpy")

    def f(x):
        return np.float32(0.5) * x + np.float64(1)
    assert text_of(f, (2, 3)) == language("0.5 * x + 1", (2, 3))


def fail(function, kind, words, code=None):
    g = mica.Graph()
    with pytest.raises(kind) as e:
        function(g, g.input("X", (4, 8)))
    assert words in str(e.value)
    if code is not None:
        assert e.value.code == code and e.value.status == 2


def test_errors_say_what_is_wrong():
    fail(lambda g, x: x @ x, mica.UsageError, "the first has 8 columns, the second 4 rows", "shape-mismatch")
    fail(lambda g, x: mica.sum(x, dim=5), mica.UsageError, "there are 2 dimensions", "bad-attribute")
    fail(lambda g, x: mica.accum(x), mica.UsageError, "operator of block and thread graphs", "wrong-level")
    fail(lambda g, x: g.input("X", (2,)), mica.UsageError, "already the name", "duplicate-name")
    fail(lambda g, x: g.input("Y", (0,)), mica.UsageError, "extents", "bad-extent")
    fail(lambda g, x: g.input("Y", (2,), "f64"), mica.UsageError, "f16, bf16, f32")
    fail(lambda g, x: g.input("Y", (1,) * 9), ValueError, "at most 8")
    fail(lambda g, x: mica.Graph().input("A", (4, 8)) + x, mica.UsageError, "different graphs")
    fail(lambda g, x: mica.exp(3), mica.UsageError, "takes tensors of Mica")
    fail(lambda g, x: mica.add(x, "a"), mica.UsageError, "neither a tensor of Mica nor a number")
    fail(lambda g, x: x + "a", TypeError, "unsupported operand")
    fail(lambda g, x: bool(x), TypeError, "no values")
    fail(lambda g, x: list(x), TypeError, "mica.split(x, dim=0, parts=n)")
    fail(lambda g, x: g.output(3), mica.UsageError, "no tensor of this graph")
    assert issubclass(mica.UsageError, ValueError) and issubclass(mica.ArgumentError, mica.UsageError)


def test_a_graph_goes_on_after_an_error():
    g = mica.Graph("again")
    x = g.input("X", (4, 8))
    with pytest.raises(mica.UsageError):
        x @ x
    g.output(x @ x.T)
    assert g.source().outputs[0][2] == (4, 4)


def test_names_of_a_traced_function():
    class Layer:
        def __call__(self, hidden, weight):
            return hidden @ weight
    specs = [mica.Spec((2, 3)), mica.Spec((3, 4), name="W")]
    assert [t[0] for t in mica.trace(Layer(), specs).source().inputs] == ["hidden", "W"]
    assert [t[0] for t in mica.trace(lambda *a: a[0] @ a[1], specs[:1] + [mica.Spec((3, 4))]).source().inputs] == ["x0", "x1"]
    with pytest.raises(mica.UsageError, match="returned an object of type int"):
        mica.trace(lambda x: 3, specs[:1])


ATTENTION = "program p { Q: f16[2, 8, 16]\n K: f16[2, 16, 64]\n V: f16[2, 64, 16]\n E = exp(matmul(Q, K))\n return matmul(E / sum(E, dim=2), V) }"


def attention_split():
    """Attention as two kernels: 4 blocks divide the keys of a head, and a second kernel adds their partial sums."""
    g = mica.Graph("split")
    q, k, v = g.input("Q", (2, 8, 16), "f16"), g.input("K", (2, 16, 64), "f16"), g.input("V", (2, 64, 16), "f16")
    b = g.block(grid=(2, 4), loop=(2,))
    e = mica.exp(b.iter(q, {"x": 0}) @ b.iter(k, {"x": 0, "y": 2}, {"i": 2}))
    b.save(mica.accum(e @ b.iter(v, (0, 1), (1,))), {"x": 0, "y": 1})
    b.save(mica.accum_sum(e, dim=2), (0, 1))
    parts, sums = b.end()
    c = g.block(grid=(2,))
    n = c.iter(parts, {"x": 0}).reshape([1, 4, 8, 16]).sum(1)
    d = c.iter(sums, {"x": 0}).reshape([1, 4, 8, 1]).sum(1)
    c.save((n / d).reshape([1, 8, 16]), {"x": 0})
    g.output(c.end())
    return g, b


def test_blocks():
    g, b = attention_split()
    assert "block(x=2, y=4; i=2)" in g.text and "fmap={i:2}" in g.text
    certificate = mica.verify(g, ATTENTION)
    assert certificate["equal"] and certificate["scope"] == "proved"
    assert not mica.verify(g, ATTENTION.replace("E / sum(E, dim=2)", "E"))["equal"]
    with pytest.raises(mica.UsageError, match="has ended"):
        b.end()
    with pytest.raises(mica.UsageError, match="no axis"):
        g.block((2,)).iter(g.input("Z", (4,)), {"q": 0})


def test_verify_says_no():
    def f(x):
        return x + x
    g, h = mica.trace(f, [mica.Spec((2, 3))]), mica.trace(lambda x: x * 3, [mica.Spec((2, 3))])
    assert not mica.verify(g, h)["equal"]


def test_a_notebook_shows_the_program():
    g = mica.Graph("shown")
    assert g._repr_html_().startswith("<pre>") and "output" in g._repr_html_()  # the reason why it is no program yet
    x = g.input("X", (4, 8))
    g.output(mica.maximum(x, 0))
    assert "<pre>program shown {" in g._repr_html_() and "X: f32[4, 8]" in g._repr_html_()
