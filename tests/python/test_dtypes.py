"""Dtypes, all rows of the table: names, elements, and arrays of each by numpy, ml_dtypes and DLPack in and out of programs."""
import ctypes
import math

import pytest
from conftest import QUICK

import mica
from mica import _mica

ROWS = {row["name"]: row for row in _mica.dtypes if row["tolerance"]}  # whole numbers: test_whole.py
VALUES = [0.0, -0.0, 1.0, -1.5, 0.1, 3.3, 100.0, math.nan, 1e6, math.inf]
CODES = {"f16": 2, "bf16": 4, "f32": 2, "f8e4m3": 10, "f8e5m2": 12}  # of DLPack 1.1: float, bfloat, float8_e4m3fn, float8_e5m2
every = pytest.mark.parametrize("name", ROWS)


class Foreign:
    """An object that supports only DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def numpy_of(name):
    numpy = pytest.importorskip("numpy")
    home = numpy if hasattr(numpy, ROWS[name]["array"]) else pytest.importorskip("ml_dtypes")
    return numpy, numpy.dtype(getattr(home, ROWS[name]["array"])), home.finfo


def doubled(name, n):
    return mica.optimize("program p { X: %s[%d]\n return X + X }" % (name, n), **QUICK)


@every
def test_names_and_elements(name):
    assert mica.Spec((2,), ROWS[name]["array"]).dtype == name == mica.Spec((2,), "torch." + ROWS[name]["array"]).dtype
    a = mica.Array((len(VALUES),), name, VALUES)
    got, again = a.tolist(), mica.Array((len(VALUES),), name, a.tolist()).tolist()
    assert got[:7] == again[:7] and got[:4] == VALUES[:4] and math.isnan(got[7]) and got[8:] == again[8:]
    assert memoryview(a).nbytes == ROWS[name]["bytes"] * len(VALUES)


@every
@pytest.mark.filterwarnings("ignore:overflow")
def test_numpy(name):
    numpy, dtype, finfo = numpy_of(name)
    got = numpy.asarray(mica.Array((len(VALUES),), name, VALUES)).view(dtype).astype("f8")
    want = numpy.array(VALUES).astype(dtype).astype("f8")
    if dtype.itemsize == 1:  # Mica saturates
        want[8:] = finfo(dtype).max
    assert mica.Spec((2,), dtype).dtype == name and numpy.array_equal(got, want, equal_nan=True)
    x = numpy.arange(256, dtype="u%d" % dtype.itemsize).view(dtype)  # all values of 8 bits
    y, want = doubled(name, 256)(x), (2 * x.astype("f8"))
    if dtype.itemsize == 1:
        want = want.clip(-finfo(dtype).max, finfo(dtype).max)
    assert y.dtype == dtype and numpy.array_equal(y.astype("f8"), want, equal_nan=True)


@every
def test_dlpack(name):
    a = mica.Array((64,), name, [x / 8 for x in range(64)])
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule = a.__dlpack__()
    kind = (ctypes.c_uint8 * 2).from_address(get(capsule, b"dltensor") + 20)  # behind data, device and ndim
    assert list(kind) == [CODES[name], 8 * ROWS[name]["bytes"]]
    assert doubled(name, 64)(Foreign(a)).tolist() == [2 * x for x in a.tolist()]
