"""Errors in traced functions: the user's line, what is wrong, and what to write instead."""
import math
import os
import subprocess
import sys

import pytest

import mica
from mica import hints

np = pytest.importorskip("numpy")
ARRAY = np.ones((8, 8), "f4")


def condition(x):
    if x.sum(0) > 0:
        return x


def loop(x):
    for row in x:
        return row


def changed(x):
    x[0] = 1
    return x


# function, exception, its line from `def` or the body, what is wrong, what to write
ERRORS = [
    (condition, TypeError, "if x.sum(0) > 0:", "cannot be a condition", "mica.where(c, x, y)"),
    (loop, TypeError, "for row in x:", "cannot be iterated", "mica.split(x, dim=0, parts=n)"),
    (changed, TypeError, "x[0] = 1", "cannot be changed", "mica.update(x, at, y, dim=0)"),
    (lambda x: np.exp(x), TypeError, "np.exp(x)", "numpy.exp computes with values", "write mica.exp(x)"),
    (lambda x: np.sum(x, axis=1), TypeError, "np.sum", "numpy.sum computes with values", "write mica.sum(x, dim)"),
    (lambda x: np.log1p(x), TypeError, "np.log1p", "numpy.log1p", "write mica.log(x + 1)"),
    (lambda x: np.concatenate([x, ARRAY]), TypeError, "np.concatenate", "an array of numpy with shape [8, 8]", "make it an argument"),
    (lambda x: np.asarray(x), TypeError, "np.asarray", "no array of numpy", "call the program that mica.optimize returns"),
    (lambda x: x * float(x), TypeError, "float(x)", "it is no number", "keep it as a tensor"),
    (lambda x: x[int(x)], TypeError, "int(x)", "it is no number", "keep it as a tensor"),
    (lambda x: math.exp(x), TypeError, "math.exp(x)", "it is no number", "keep it as a tensor"),
    (lambda x: mica.sofmax(x, 1), AttributeError, "mica.sofmax", "no attribute `sofmax`", "did you mean mica.softmax(x, dim)?"),
    (lambda x: mica.optimise(x), AttributeError, "mica.optimise", "no attribute `optimise`", "did you mean mica.optimize?"),
    (lambda x: mica.einsum(x), AttributeError, "mica.einsum", "no attribute `einsum`", "write x @ y"),
    (lambda x: mica.qqq(x), AttributeError, "mica.qqq", "no attribute `qqq`", "`mica ops` lists the operators"),
    (lambda x: x.softmaxx(1), AttributeError, "x.softmaxx", "no attribute `softmaxx`", "did you mean x.softmax?"),
    (lambda x: x.view(64), AttributeError, "x.view", "no attribute `view`", "write mica.reshape(x, [...])"),
    (lambda x: x.item(), AttributeError, "x.item", "no attribute `item`", "outside of the function"),
    (lambda x: ARRAY @ x, TypeError, "ARRAY @ x", "an array of numpy with shape [8, 8]", "make it an argument of the function"),
    (lambda x: x @ ARRAY, TypeError, "x @ ARRAY", "an array of numpy with shape [8, 8]", "make it an argument of the function"),
    (lambda x: ARRAY * x, TypeError, "ARRAY * x", "an array of numpy with shape [8, 8]", "make it an argument of the function"),
    (lambda x: x - ARRAY, TypeError, "x - ARRAY", "an array of numpy with shape [8, 8]", "make it an argument of the function"),
    (lambda x: [[1] * 8] @ x, TypeError, "@ x", "one operand is a list", "make it an argument of the function"),
    (lambda x: mica.add(x, ARRAY), TypeError, "mica.add", "an array of numpy", "make it an argument of the function"),
    (lambda x: mica.exp(ARRAY), ValueError, "mica.exp(ARRAY)", "none of the operands is one", "arguments of a function that mica.optimize traces"),
    (lambda x: mica.add(x, "a"), ValueError, "mica.add", "neither a tensor of Mica nor a number", "`mica ops add`"),
    (lambda x: x[0:3], ValueError, "x[0:3]", "a tensor of whole numbers", "mica.slice(x, dim, start, end)"),
    (lambda x: x @ x.reshape([4, 16]), ValueError, "x @ x.reshape", "8 columns, the second 4 rows [shape-mismatch]", "docs/language.md"),
    (lambda x: mica.sum(x, 3), ValueError, "mica.sum(x, 3)", "there are 2 dimensions", "mica ops"),
    (lambda x: 3, ValueError, "lambda x: 3", "an object of type int", "return a tensor of Mica"),
]


def message(function, kind):
    with pytest.raises(kind) as e:
        mica.trace(function, [mica.Spec((8, 8))])
    return e.value


@pytest.mark.parametrize("function,kind,line,wrong,write", ERRORS, ids=[e[2] for e in ERRORS])
def test_hint(function, kind, line, wrong, write):
    e = message(function, kind)
    first, where, *rest = str(e).split("\n")
    assert wrong in first
    assert where.startswith(f"  {__file__}:") and line in where and f"in {function.__name__}" in where
    assert len(rest) == 1 and rest[0].startswith("  hint: ") and write in rest[0]
    if kind is not AttributeError:
        assert isinstance(e, mica.UsageError) and e.status == 2 and (e.code == "shape-mismatch") == ("[shape-mismatch]" in first)


def test_torch():
    torch = pytest.importorskip("torch")
    ones = torch.ones(8, 8)
    for function, wrong, write in [
            (lambda x: torch.exp(x), "torch.exp computes with values", "write mica.exp(x)"),
            (lambda x: torch.nn.functional.softmax(x, 1), "torch.softmax computes with values", "write mica.softmax(x, dim)"),
            (lambda x: ones @ x, "an array of torch with shape [8, 8]", "make it an argument"),
            (lambda x: x + ones, "an array of torch with shape [8, 8]", "make it an argument"),
            (lambda x: torch.cat([x, ones]), "an array of torch with shape [8, 8]", "make it an argument")]:
        text = str(message(function, mica.ArgumentError))
        assert wrong in text and write in text.split("\n")[-1] and f"  {__file__}:" in text.split("\n")[1]


def test_errors_of_the_user_are_left():
    """Errors that the function's own code raises have its line as their last frame."""
    assert str(message(lambda x: 1 / 0, ZeroDivisionError)) == "division by zero"
    assert "unsupported operand" in str(message(lambda x: x + "a", TypeError))


def inner(x):
    return x @ x.reshape([4, 16])


def test_the_innermost_line_of_the_user_comes_once():
    text = str(message(lambda x: mica.trace(inner, [mica.Spec((8, 8))]), mica.UsageError))
    assert text.count(__file__) == 1 and "in inner: return x @ x.reshape" in text


def test_without_a_source_line():
    space = {"mica": mica}
    exec("def f(x):\n    return mica.sofmax(x)", space)
    assert "  <string>:2, in f\n" in str(message(space["f"], AttributeError))


@pytest.mark.parametrize("dtype,write", [
    ("flaot32", "did you mean \"float32\"?"), ("bfloat61", "did you mean \"bfloat16\"?"), ("float64", "write \"f32\""), ("double", "write \"f32\""),
    ("int8", "write \"i32\""), ("xyz", "write \"f32\""), (np.float64, "x.astype('float32')")])
def test_dtypes(dtype, write):
    for make in (lambda: mica.Spec((2,), dtype), lambda: mica.Graph().input("X", (2,), dtype)):
        with pytest.raises(mica.UsageError) as e:
            make()
        first, hint = str(e.value).split("\n")
        assert "its dtypes are f16, bf16, f32" in first and write in hint
    assert mica.Graph().input("X", (2,), "float16").dtype == mica.Graph().input("X", (2,), np.float16).dtype == "f16"


def test_equal_is_a_condition():
    def f(x):
        return mica.where(x == 0, x, mica.where(x != 3, x * 2, x * 3))
    text = mica.trace(f, [mica.Spec((8, 8))]).text
    assert "x == 0" in text and "x == 3" in text
    seen = []
    mica.trace(lambda x: seen.append((x is x, x == None, x != None, len({x, x}))) or x, [mica.Spec((2, 2))])  # noqa: E711
    assert seen == [(True, False, True, 1)]


def test_every_row_names_what_is_there():
    """`mica.NAME` in the table is an operator, and no row hides an operator of the same name."""
    import re
    for name, text in hints.INSTEAD.items():
        for operator in re.findall(r"mica\.(\w+)", text):
            assert operator in mica.__all__, (name, operator)
    assert not set(hints.INSTEAD) & set(hints.OTHERWISE)


def test_names_of_modules():
    code = "import mica\ntry:\n    mica.mirage\nexcept AttributeError as e:\n    print(e)\nimport mica.mirage\nprint(mica.mirage.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True).stdout
    assert "hint: it is a module: write import mica.mirage first" in said and said.endswith("mica.mirage\n")
