"""Whether Mica's program and torch's function of a family compute the same: in float64 on the CPU, with tiny shapes and random inputs."""
import os
import subprocess
import tempfile

from .drawn import at, draw, make_inputs, programs
from .env import torch
from .timing import Maker

TOLERANCE = 1e-6


def by_mica(binary, file, d, inputs, where):
    """The result of `mica run`, as a tensor."""
    import numpy

    words = [binary, "run", file, "--dtype", "f32", "--engine", "f64", "--quiet", "--out", where]
    for name, n in d.small().items():
        words += ["--set", "%s=%d" % (name, n)]
    for (name, _), x in zip(d.inputs, inputs):
        path = os.path.join(where, "in_%s.npy" % name)
        numpy.save(path, x.numpy())
        words.append("%s=%s" % (name, path))
    r = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if r.returncode:
        raise RuntimeError(r.stdout.decode("utf-8", "replace").strip()[-300:])
    made = [f for f in os.listdir(where) if f.endswith(".npy") and not f.startswith("in_")]
    if len(made) != 1:
        raise RuntimeError("mica run wrote %d results" % len(made))
    return torch.from_numpy(numpy.load(os.path.join(where, made[0]))).double()


def compare(binary, file, d, seed):
    """(relative error, what torch computes has the shape of the row)."""
    inputs = make_inputs(d)(Maker("cpu", torch.float32, seed))
    want = at(d)(*(x.double() for x in inputs))
    with tempfile.TemporaryDirectory() as where:
        got = by_mica(binary, file, d, inputs, where)
    if tuple(want.shape) != d.shape(d.out) or got.shape != want.shape:
        raise RuntimeError("shapes: torch %s, mica %s, the row %s" % (tuple(want.shape), tuple(got.shape), d.shape(d.out)))
    return rel_err64(got, want)


def rel_err64(got, want):
    return float(torch.linalg.vector_norm(got - want) / torch.linalg.vector_norm(want))


def agree(seed, names, binary):
    """Prints a line a workload; 1 where one differs."""
    known, files, bad = draw(seed)[0], programs(seed), 0
    for i, name in enumerate(names):
        d = known[name]
        try:
            error = compare(binary, files[name].file, d, 1000 * seed + i)
            text = "ok" if error <= TOLERANCE else "DIFFERS"
        except Exception as e:
            error, text = float("nan"), "FAILED: " + str(e).replace("\n", " ")[:200]
        bad += text != "ok"
        print("%-28s %-10.1e %s  %s" % (name, error, text, d.kind or ""), flush=True)
    print("%d of %d agree" % (len(names) - bad, len(names)))
    return 1 if bad else 0
