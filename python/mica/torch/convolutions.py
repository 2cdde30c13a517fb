"""Rows of the operator table (ops.py): convolutions without overlapping windows, which are matrix products."""
from __future__ import annotations

import math

from .emit import Cannot
from .ops import PRODUCTS, row
from .reductions import whole_windows


@row("aten.convolution.default", kinds=[PRODUCTS])
def convolution(e, x, w, bias, stride, padding, dilation, transposed, output_padding, groups):
    """A convolution with windows that do not overlap: of one element, or patches of an image."""
    window = list(w.want[2:])
    strides = list(stride) * (len(window) if len(stride) == 1 else 1)
    if transposed or groups != 1 or any(padding) or strides != window or x.ndim != w.ndim:
        raise Cannot("a convolution with padding, groups, or windows that overlap")
    if any(d != 1 and k > 1 for d, k in zip(list(dilation) * (len(window) if len(dilation) == 1 else 1), window)):
        raise Cannot("a convolution with dilation")
    if x.batch not in (None, 0):
        raise Cannot("a convolution over a dynamic extent")
    x = whole_windows(e, x, window)
    n, c, *space = x.want
    places = [s // k for s, k in zip(space, window)]
    if math.prod(window) > 1:
        apart = e.reshape(x, [n, c, *(part for pair in zip(places, window) for part in pair)])
        dims = range(2, apart.ndim)
        x = e.permute(apart, [0, 1, *dims[1::2], *dims[::2]])
    size = c * math.prod(window)
    y = e.matmul(e.reshape(w, [w.want[0], size]), e.reshape(x, [n, size, math.prod(places)]))
    if bias is not None:
        y = e.binary("{0} + {1}", y, e.reshape(bias, [w.want[0], 1]))
    return e.reshape(y, [n, w.want[0], *places])
