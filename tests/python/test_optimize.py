"""mica.optimize: arguments, options, progress, interruptions, folders."""
import io
import os
import signal
import threading
import warnings

import pytest

import mica
from conftest import PAIR, QUICK
from mica import progress


def test_report(pair):
    assert pair.report["program"] == "pair" and pair.report["target"] == "cpu"
    assert pair.report["certificate"]["equal"] and "pair" in pair.report_text
    assert pair.speedup == pair.report["speedup"]
    assert pair.disturbed == pair.report["disturbed"]
    assert pair.report_html.lstrip().lower().startswith("<!doctype html") and pair._repr_html_().startswith("<iframe srcdoc=")


def test_save_and_load(pair, saved, tmp_path):
    g = mica.load(saved)
    assert g.report_html == "" and g._repr_html_().startswith("<pre>pair on cpu")
    assert g.inputs == pair.inputs and g.report == pair.report and g.recalled and pair.report_text.startswith(g.report_text[:400])
    x, y = mica.Array((4, 6), values=range(24)), mica.Array((4, 6), values=[1] * 24)
    assert g(x, y)[1].tolist() == pair(x, y)[1].tolist()
    g.save(tmp_path / "copy")
    assert mica.load(tmp_path / "copy")(x, y)[0].tolist() == g(x, y)[0].tolist()
    with pytest.raises(mica.Error):
        mica.load(tmp_path / "nothing")
    g.save(tmp_path / "copy")  # once more, in its place
    for name in ("kernel.so", "report.json", "program.json"):
        was = (tmp_path / "copy" / name).read_bytes()
        (tmp_path / "copy" / name).write_bytes(was[:-1] + b"x")
        with pytest.raises(mica.Error, match=f"{name} is not the file that was saved"):
            mica.load(tmp_path / "copy")
        (tmp_path / "copy" / name).unlink()
        with pytest.raises(mica.Error, match=f"{name} is missing"):
            mica.load(tmp_path / "copy")
        (tmp_path / "copy" / name).write_bytes(was)
    assert mica.load(tmp_path / "copy").report == pair.report
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "module.json").write_text("{")
    with pytest.raises(mica.Error):
        mica.load(tmp_path / "bad")


def test_a_function_on_arrays():
    np = pytest.importorskip("numpy")

    def scaled(x, y):
        return x + y * 2, mica.sum(x * y, dim=1)
    x, y = np.full((4, 6), 3, "f4"), np.full((4, 6), 2, "f4")
    seen = []
    f = mica.optimize(scaled, x, y, **{**QUICK, "progress": seen.append}, remember=False)
    assert seen and all(0 <= d["done"] <= 1 for d in seen) and {"stage", "states", "best_us"} <= set(seen[0])
    total, sums = f(x, y)
    assert (total == 7).all() and (sums == 36).all() and [s.name for s in f.inputs] == ["x", "y"]


def test_frozen():
    np = pytest.importorskip("numpy")
    g = mica.Graph("frozen")
    x, w, b = g.input("X", (3, 8)), g.input("W", (8, 20), frozen=True), g.input("B", (20,), frozen=True)
    g.output(mica.exp(x @ w) + mica.exp(b))
    f = mica.optimize(g, **QUICK, remember=False)
    assert f._frozen == (False, True, True)
    rng = np.random.default_rng(1)
    x, w, b = (rng.standard_normal(s, dtype="f4") / 4 for s in ((3, 8), (8, 20), (20,)))
    want = np.exp(x @ w) + np.exp(b)
    one, other = f.freeze(w, b), f.freeze(B=b * 0, W=w)
    assert np.allclose(one(x, w, b), want, 1e-5) and np.allclose(other(x, w, b * 0), want - np.exp(b) + 1, 1e-5)
    assert np.allclose(f(x, w, b), want, 1e-5) and one.report == f.report
    del f
    assert np.allclose(one(x, w, b), want, 1e-5) and np.allclose(one.freeze(w, b)(x, w, b), want, 1e-5)
    for inputs, named, said in (((w, b, w), {}, "2 frozen inputs"), ((w,), {"W": w}, "no frozen input `W` that is not given"),
                                ((w,), {}, "(B) is frozen, and missing"), ((w, x), {}, "its shape is [3, 8]")):
        with pytest.raises(mica.UsageError) as e:
            one.freeze(*inputs, **named)
        assert said in str(e.value)
    with pytest.raises(mica.UsageError, match="is frozen: it is no state"):
        g = mica.Graph("wrong")
        g._g.declare(g.input("X", (3,), frozen=True).number, 0, 1, False, True)


def test_frozen_indices():
    """A frozen index out of range is an error: nothing is read past the table."""
    np = pytest.importorskip("numpy")
    f = mica.optimize("program p { X: f32[3, 4]\n T: f32[8, 4] frozen\n at: i32[3] < 8 frozen\n return X + T[at] * 2 }", **QUICK, remember=False)
    table, at, x = np.arange(32, dtype="f4").reshape(8, 4), np.array([7, 0, 3], "i4"), np.ones((3, 4), "f4")
    assert (f.freeze(table, at)(x, table, at) == 1 + 2 * table[at]).all()
    with pytest.raises(mica.Error, match="at"):
        f.freeze(table, np.array([7, 1 << 20, 3], "i4"))


def wrong(words, *arguments, kind=mica.UsageError, **options):
    with pytest.raises(kind) as e:
        mica.optimize(*arguments, progress=False, **options)
    assert words in str(e.value)


def test_wrong_programs_and_options(tmp_path):
    wrong("did you mean `softmax`?", "program p { X: f32[4, 4]\n return sotmax(X, dim=1) }")
    wrong("there is no option `tim`", PAIR, tim=3)
    wrong("products of f32 are not made by `tf32`", PAIR, f32_products="tf32")
    for options, words in [(dict(threads=1 << 40), "threads is an integer, not 1099511627776"), (dict(time="long"), "time is a number, not 'long'"),
                           (dict(seed=-1), "seed is an integer from 0, not -1"), (dict(target=5), "target is a string, not 5")]:
        wrong(f"the option {words}", PAIR, **options)
    with pytest.raises(TypeError):
        mica.Spec((4, 1.5))
    for name in "time", "tune", "seconds":
        for value in float("nan"), float("inf"), -1:
            wrong(f"the option {name} is a number from 0", PAIR, **{name: value})
    for name in "threads", "search_threads", "measure", "max_values":
        wrong(f"the option {name} is an integer from 0", PAIR, **{name: -1})
    wrong("is no program", 3)
    wrong("needs example inputs", lambda x: x)
    wrong("example input 1 is f32[4, 5], and the program's is Y: f32[4, 6]", PAIR, mica.Spec((4, 6)), mica.Spec((4, 5)))
    wrong("dtype=\"f16\" makes all inputs that", PAIR, mica.Spec((4, 6), "f16"), mica.Spec((4, 6), "f16"))
    wrong("1 example inputs, and the program pair has 2", PAIR, mica.Spec((4, 6)))
    with pytest.raises(mica.UsageError, match="no dtype float64.*\n.*an array is converted by"):
        mica.Spec((4, 6), "float64")
    wrong("is no array", lambda x: x, 3)
    wrong("nothing.mica", tmp_path / "nothing.mica", kind=mica.Error)
    wrong("target", PAIR, target="abacus")


def test_parameters():
    from mica.optimize import source_of
    s = source_of("examples/softmax.mica", (), {"m": 8, "n": 64})
    assert s.inputs[0][2] == (8, 64)


def test_an_error_of_the_progress_function():
    def bad(d):
        raise RuntimeError("of the progress function")
    with pytest.raises(RuntimeError, match="of the progress function"):
        mica.optimize(PAIR, **{**QUICK, "progress": bad}, remember=False)


def test_a_graph_that_is_being_optimized(tmp_path):
    """The progress function cannot use the graph. Programs of the graph may be freed meanwhile."""
    g = mica.Graph("busy")
    x = g.input("X", (4, 6))
    g.output(x + 1)
    old, seen = [mica.optimize(g, **QUICK, db=tmp_path / "db")], []

    def use(d):
        old.clear()  # the last reference
        with pytest.raises(mica.UsageError, match="being optimized by this thread"):
            x + 1
        seen.append(d)
    f = mica.optimize(g, **{**QUICK, "progress": use}, fresh=True, db=tmp_path / "db")
    assert seen and f(mica.Array((4, 6))).tolist()[0][0] == 1


def test_interrupted(tmp_path):
    """Ctrl-C: the best is kept, or there is none yet and the interruption is raised. Another thread runs meanwhile."""
    steps, done = [], threading.Event()

    def other():
        while not done.wait(0.01):
            steps.append(1)
    thread = threading.Thread(target=other)
    thread.start()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                f = mica.optimize("examples/m_gqa.mica", dtype="f32", progress=False, db=tmp_path / "db", measure=1, seconds=0.02, threads=2)
                assert f.report["stopped"] and any(w.category is mica.Stopped for w in said)
            except KeyboardInterrupt:
                pass
    finally:
        done.set()
        thread.join()
    assert len(steps) > 3
    assert mica.optimize(PAIR, **QUICK).name == "pair"  # all is as before


class Screen(io.StringIO):
    def isatty(self):
        return True


def show(monkeypatch, **environment):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    p = progress.progress_open(None, "gqa")
    p.callback("search", 1, 2, 12345, 50_000_000, 3, 0.0, 0.0)
    p.callback("search", 1, 2, 12345, 50_000_000, 3, 8.25, 1.0)
    p.close()
    return screen.getvalue()


def test_progress_on_a_terminal(monkeypatch):
    plain = show(monkeypatch, NO_COLOR="1")
    assert plain.startswith("\r\033[Kgqa: search 1/2  12k tried, 50M pruned, 3 verified") and "best 8.2 us" in plain
    assert plain.endswith("\r\033[K") and "\033[2m" not in plain
    assert "\033[2m" in show(monkeypatch) and "\033[2m" not in show(monkeypatch, TERM="dumb")


def test_progress_elsewhere(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(progress.progress_open(None, "p"), progress.Quiet)
    assert isinstance(progress.progress_open(False, "p"), progress.Quiet)

    class Handle:
        def update(self, data, raw):
            shown.append(data["text/plain"])
    shown = []

    def display(data, raw, display_id):
        shown.append(data["text/plain"])
        return Handle()
    p = progress.Notebook("p", display)
    p.callback("search", 1, 1, 0, 0, 0, 0.0, 0.0)
    p.callback("measure", 1, 1, 0, 0, 0, 2.0, 1.0)
    p.close()
    assert shown == ["p: search", "p: measure, best 2.0 us", "p: done"]
