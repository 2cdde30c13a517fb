"""The first call of a model: equal layers are judged once, the time limit holds, and the result is reported."""
import os
import threading
import time
import types

import pytest

from conftest_torch import ALL, compiled, torch
import torch_models as models

import mica.torch
from mica.torch import budget, engine, explain, fuse, inductor, measure

nn = torch.nn
MANY = 16  # layers; equal ones are those between the first and the last


@pytest.fixture(autouse=True)
def anew(tmp_path, monkeypatch):
    torch.manual_seed(0)
    mica.torch.library._regions.clear()
    monkeypatch.setenv("MICA_TORCH_CACHE", str(tmp_path))


class Watch:
    """Replaces the clock, the search, Inductor and the race. Counts their calls; each takes a given number of seconds."""

    def __init__(self, monkeypatch, search=0.0, inductor_takes=0.0, wins=True, overshoot=1.0):
        self.now, self.searches, self.compilations, self.given, self.spent, self.beside = 0.0, [], 0, [], [], []
        self.search, self.takes, self.wins, self.overshoot = search, inductor_takes, wins, overshoot
        monkeypatch.setattr(budget, "clock", lambda: self.now)
        monkeypatch.setattr(engine, "compile", self.make)
        monkeypatch.setattr(mica.torch.region, "_Program", lambda region, *_: self.program(region))
        monkeypatch.setattr(inductor, "compile_alone", lambda module, *_: self.inductor(module))
        monkeypatch.setattr(inductor, "compile", lambda gm, *_: self.inductor(gm))
        monkeypatch.setattr(measure, "race", lambda *_: (1.0, 2.0) if wins else (2.0, 1.0))

    def make(self, text, target, options, seconds, asked, meanwhile):
        if seconds <= 0:
            raise engine.LateError("no time was left; " + engine.MORE_TIME)
        known = text in self.searches  # the database has it
        self.searches.append(text)
        self.given.append((seconds, asked))
        self.spent.append(self.now)  # seconds before it
        end, compilations = self.now + (0 if known else min(self.search, seconds) * self.overshoot), self.compilations
        if meanwhile:
            meanwhile()
        self.beside.append(self.compilations - compilations)
        self.now = max(self.now, end)
        return types.SimpleNamespace(recalled=False, untried="", folder=str(len(self.searches)))

    def program(self, region):
        def run(args):
            return [o.clone() for o in region.module(*args)]
        run.compiled, run.bucket, run.makers, run.limits = types.SimpleNamespace(folder=str(len(self.searches)), untried=""), 0, [], {}
        return run

    def inductor(self, module):
        self.compilations += 1
        inductor.compilations += 1
        self.now += self.takes
        return module.forward


def decoder(layers=3):
    return models.CachedLlama(layers).eval(), (torch.randn(2, 1, 64), torch.tensor([3]))


def explained(layers=3, **more):
    model, inputs = decoder(layers)
    return explain(model, *inputs, options={**ALL, "take": "faster", "rest": "inductor", **more})


def test_equal_layers_are_judged_once(monkeypatch):
    """One program behind each cache write, of which the first and the last differ: three texts, and an Inductor compilation for each."""
    watch = Watch(monkeypatch)
    e = explained(MANY)
    (g,) = e.graphs
    assert len(e.programs) == MANY + 1 and all(p.taken for p in e.programs), e.details()
    assert len(set(watch.searches)) == len(watch.searches) == g.judged == 3
    assert watch.compilations == g.compilations == 3 + 2  # what runs, and the whole graph that it is measured against
    assert sum(p.same_as == "program 1" for p in e.programs) == MANY - 2


def test_inductor_compiles_while_programs_are_searched(monkeypatch):
    """Code that a program is compared with, and with the first program the whole graph's. There are as many compilations as without, and only that of
    the graph with programs is waited for."""
    monkeypatch.setattr(inductor, "may_run_beside", lambda *_: True)
    watch = Watch(monkeypatch, search=5.0, inductor_takes=1.0)
    (g,) = explained(MANY, time=1000).graphs
    assert watch.beside == [2, 1, 1] and watch.compilations == g.compilations == 3 + 2
    assert g.seconds == pytest.approx(3 * 5.0) and watch.now == pytest.approx(3 * 5.0 + 1.0)


@pytest.mark.parametrize("beside", [True, False])
def test_a_program_whose_comparison_is_compiled_is_measured(monkeypatch, beside):
    """Although its search ended late: the time is over by a third. If Inductor would have to compile first, the program is left."""
    monkeypatch.setattr(inductor, "may_run_beside", lambda *_: beside)
    Watch(monkeypatch, search=1000.0, inductor_takes=0.5, overshoot=1.4)
    e = explained(time=30, max_ops=256)
    assert [p.taken for p in e.programs][-1] == beside, e.details()


def test_nothing_is_compiled_beside_a_race_that_needs_the_processor(monkeypatch):
    watch = Watch(monkeypatch)
    explained(MANY)
    assert watch.beside == [0, 0, 0]
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert inductor.may_run_beside(gpu, "default") and inductor.may_run_beside(gpu, "reduce-overhead")
    assert not inductor.may_run_beside(gpu, "max-autotune") and not inductor.may_run_beside(cpu, "default")


def test_a_search_has_a_thread_of_its_own():
    begun, done = threading.Event(), threading.Event()

    def work(ended):
        begun.set()
        assert done.wait(60) and not ended.is_set()
        return threading.get_ident()

    def meanwhile():
        assert begun.wait(60)
        done.set()
    assert engine._beside(work, meanwhile) != threading.get_ident()
    assert engine._beside(lambda ended: (ended, threading.get_ident()), None) == (None, threading.get_ident())


@pytest.mark.parametrize("shown", [False, True])
def test_a_search_that_nobody_waits_for_ends(monkeypatch, capsys, shown):
    """Whether a person sees its progress or not."""
    seen, running = [], threading.Event()
    now = dict(stage="search", part=1, parts=1, states=0, pruned=0, verified=0, best_us=0.0, done=0.0)

    def search(text, settings, progress, **_):  # reports progress, and ends if that raises
        while True:
            progress(now)
            running.set()
            time.sleep(0.001)
    monkeypatch.setattr(engine, "_optimize", search)

    def meanwhile():
        assert running.wait(60)
        seen.append("meanwhile")
        raise KeyboardInterrupt
    options = types.SimpleNamespace(progress=shown, take="faster")
    with pytest.raises(KeyboardInterrupt):
        engine._beside(lambda ended: engine._make("text", "sm_90a", {}, options, 60, "", ended), meanwhile)
    assert seen == ["meanwhile"] and ("search" in capsys.readouterr().err) == shown


def test_code_that_cannot_be_compiled_is_tried_once():
    """Beside a search its exception is kept for those who ask for the code."""
    calls = []

    def make():
        calls.append(1)
        raise RuntimeError("no compiler")
    later = inductor.Later(make)
    later.begin()
    assert not later.made
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no compiler"):
            later.get()
    assert calls == [1]


def test_programs_run_where_inductor_cannot_compile_the_whole(monkeypatch):
    """The whole graph is only compared with: without it the programs and the rest, which were compiled, run."""
    Watch(monkeypatch)

    def fails(*_):
        raise RuntimeError("no code for the whole")
    monkeypatch.setattr(mica.torch.compiler, "_whole", fails)
    e = explained()
    (g,) = e.graphs
    assert all(p.taken for p in e.programs) and not g.rest_us, e.details()


def test_the_time_of_a_graph_is_at_most_twice_what_inductor_needs():
    """Inductor needs about 3 + 0.012 n seconds on a GPU: with compilation beside and after the searches, at most three times as long."""
    none, some = types.SimpleNamespace(time=0), types.SimpleNamespace(time=40)
    for nodes in (200, 402, 585, 616, 844, 1472):
        assert budget.seconds_of(none, nodes, "cuda") <= 2 * (3 + 0.012 * nodes)
        assert budget.seconds_of(some, nodes, "cuda") == 40
    assert budget.seconds_of(none, 616, "cpu") == engine.LONGEST


def test_smaller_programs_are_judged_once_too(monkeypatch):
    watch = Watch(monkeypatch, wins=False)
    e = explained(MANY, max_ops=(256, 16, 6))
    (g,) = e.graphs
    assert not e.taken and len(e.programs) > 4 * MANY
    assert g.judged == len(watch.searches) == len(set(watch.searches)) < 40
    assert watch.compilations == g.judged and g.compilations == g.judged + 1  # and the model as without Mica


@pytest.mark.parametrize("wins", [True, False])
@pytest.mark.parametrize("search, takes, overshoot", [(100, 0.1, 1), (100, 3, 1), (100, 9, 1), (0.1, 5, 1), (100, 1, 1.5), (100, 0, 1.05)])
def test_the_time_is_kept(monkeypatch, wins, search, takes, overshoot):
    """Searches that take all that they are given, and more; slow judgements: in total at most a tenth more than `time`, but for one judgement
    whose duration was not known, and what one search overshoots."""
    watch = Watch(monkeypatch, search, takes, wins, overshoot)
    (g,) = explained(time=30).graphs
    first = max(30 * 0.1, takes)
    assert g.seconds <= 30 + first + 1e-6, g.seconds
    assert watch.searches and sum(s for s, _ in watch.given) <= 30


def test_shares_are_those_of_distinct_programs(monkeypatch):
    """By their bounds, those of equal programs together."""
    watch = Watch(monkeypatch, search=1000.0)
    monkeypatch.setattr(fuse, "bound_of", lambda program: 1e6 * program.operators)
    programs = explained(time=30, rest="eager", max_ops=256).programs
    bounds = [sum(p.operators for p in programs if own.name in (p.name, p.same_as)) for own in programs if not own.same_as]
    shares = [30 * n / sum(bounds) for n in bounds]
    assert len(shares) == 3 and len(programs) == 4 and max(shares) > 1.5 * min(shares), bounds
    assert [seconds for seconds, _ in watch.given] == pytest.approx(shares) and [asked for _, asked in watch.given] == pytest.approx(shares)


def test_different_nodes_of_one_text_are_one_program(monkeypatch):
    """They share one part of the time, and are measured once: the first layer of a model often has a copy more."""
    watch, w = Watch(monkeypatch, search=0.0), torch.randn(64, 64)

    def layer(x):
        return (x @ w).softmax(-1) * 2
    e = explain(lambda x: layer(layer(x.clone()).logcumsumexp(0)), torch.randn(8, 64),
                options={**ALL, "take": "faster", "rest": "inductor", "time": 30})
    assert len(e.programs) == len(watch.given) == 2 and len(set(watch.searches)) == 1 and len({p.same_as for p in e.programs}) == 1, e.details()
    assert all(asked == pytest.approx(30) for _, asked in watch.given), watch.given


def test_what_is_left_of_the_time_is_shared_by_texts_that_wait(monkeypatch):
    """A copy of a program takes no time from waiting programs. After a slow first one, these share the remaining time."""
    watch, w = Watch(monkeypatch, search=1000.0, overshoot=1.5), torch.randn(64, 64)
    monkeypatch.setattr(fuse, "bound_of", lambda program: 1.0)

    def layer(x):
        return (x @ w).softmax(-1) * 2

    def f(x):
        x = layer(layer(x.clone()).logcumsumexp(0)).logcumsumexp(0)
        return (x.softmax(-1) * 3).logcumsumexp(0).softmax(0) * 5
    e = explain(f, torch.randn(8, 64), options={**ALL, "take": "faster", "rest": "eager", "time": 40, "max_ops": 256})
    assert len(e.programs) == 4 and watch.searches[0] == watch.searches[1] and len(set(watch.searches)) == 3, e.details()
    left = 40 - watch.spent[2]
    assert watch.given[2][0] == pytest.approx(left / 2), (watch.given, watch.spent)


def test_the_options_that_do_not_matter_judge_nothing_anew(monkeypatch):
    watch = Watch(monkeypatch)
    explained()
    explained(summary=False, progress=True)
    assert len(watch.searches) == 3


# ---- messages ----

def test_five_lines(monkeypatch):
    Watch(monkeypatch)
    lines = str(explained()).splitlines()
    assert [line.split()[0] for line in lines] == ["taken", "left", "gain", "slowest", "change"]
    assert "in 4 programs of 3 texts" in lines[0]
    assert "aten.index_copy.default (no row for this operator; torch_models.py:" in lines[1]
    assert "a call takes 1.0 us against 2.0 without Mica, 2.00 times as fast" in lines[2]
    assert "against 2.0" in lines[3] and "aten.index_copy.default" in lines[4]


def test_five_lines_of_what_is_slower(monkeypatch):
    Watch(monkeypatch, wins=False)
    lines = str(explained()).splitlines()
    assert lines[0].startswith("taken   none of") and lines[2].startswith("gain    none") and "2.0 us against 1.0 without Mica" in lines[3]


def test_too_little_time_is_what_would_change_it(monkeypatch):
    Watch(monkeypatch, search=1000.0, inductor_takes=100.0)
    e = explained(time=1)
    assert "no time was left" in e.details() and "a larger `time`" in str(e).splitlines()[4]


@pytest.mark.parametrize("wins", [True, False])
def test_one_line_is_said_by_default(monkeypatch, capfd, wins):
    Watch(monkeypatch, wins=wins)
    model, inputs = decoder(2)
    with torch.no_grad():
        compiled(model, take="faster", rest="inductor")(*inputs)
        said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("mica: ")]
        assert len(said) == 1 and ("2.00 times as fast" in said[0] if wins else "none of 153 nodes is taken" in said[0]), said
        compiled(model, take="faster", rest="inductor", summary=False)(*inputs)
        monkeypatch.setenv("MICA_TORCH_SUMMARY", "0")
        compiled(model, take="faster", rest="inductor")(*inputs)
    assert "mica:" not in capfd.readouterr().err


def test_gradients_are_the_reason(capfd):
    model, inputs = models.LoraLinear(), (torch.randn(8, 64),)
    compiled(model)(*inputs)
    said = capfd.readouterr().err
    assert "it needs gradients: 4 of its inputs and weights track them; call the model within torch.no_grad()" in said


@pytest.mark.parametrize("gradients", [False, True])
def test_a_wrong_target_is_refused(gradients):
    model, inputs = models.LoraLinear(), (torch.randn(8, 64),)
    with torch.set_grad_enabled(gradients), pytest.raises(Exception, match="there is no target 'sm_70'; there are cpu, sm_80"):
        compiled(model, target="sm_70")(*inputs)


def test_nothing_taken_is_said_plainly():
    e = explain(nn.Linear(4, 4), torch.randn(2, 4), options={**ALL, "min_work": 1e9})
    assert "none of 2 nodes is taken" in e.details() and "0 programs" not in e.details() and str(e).startswith("taken   none of 2 nodes")


STRIDED = {
    "dense": lambda: torch.randn(4, 6, 8),
    "turned": lambda: torch.randn(6, 8, 4).permute(2, 0, 1),
    "gaps in rows": lambda: torch.randn(4, 6, 11)[..., :8],
    "gaps between matrices": lambda: torch.randn(4, 9, 8)[:, :6],
    "every second": lambda: torch.randn(4, 6, 16)[..., ::2],
    "expanded": lambda: torch.randn(6, 8).expand(4, 6, 8),
    "windows": lambda: torch.randn(80).as_strided((4, 6, 8), (12, 4, 1)),
    "windows with gaps": lambda: torch.randn(200).as_strided((4, 6, 8), (50, 4, 1)),
    "one row": lambda: torch.randn(4, 6, 8)[:1, :, :3],
    "empty": lambda: torch.randn(4, 6, 8)[:0],
}


@pytest.mark.parametrize("kind", STRIDED)
def test_random_inputs_have_the_strides_of_the_graph(kind):
    """Inductor's code refuses an input with other strides than those it was compiled for."""
    x = STRIDED[kind]()
    y = measure.example(x, tuple(x.shape), x.stride(), measure.generator("cpu"))
    assert (y.shape, y.stride(), y.dtype) == (x.shape, x.stride(), x.dtype)
    assert not y.numel() or y.float().std() > 0.1  # random numbers
    mask = measure.example(x > 0, tuple(x.shape), x.stride(), measure.generator("cpu"))
    assert mask.stride() == x.stride() and ("windows" in kind or not mask.numel() or bool(mask[..., 0].all()))


@pytest.mark.parametrize("kind", ["gaps in rows", "expanded", "windows"])
def test_a_graph_of_views_is_measured(monkeypatch, kind, capfd):
    raced = []
    monkeypatch.setattr(measure, "race", lambda a, b, *_: raced.append((a(), b())) or (1.0, 2.0))
    x, w = STRIDED[kind](), torch.randn(8, 8)

    def f(x, w):
        return torch.softmax(x @ w, -1).relu() * 2, torch.special.bessel_j0(x)  # which the language lacks: the whole graph is measured, too

    got = compiled(f, take="faster", rest="inductor")(x, w)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(got, f(x, w)))
    said = capfd.readouterr().err
    assert raced and "in 1 program" in said and "failed" not in said


@pytest.fixture
def lock(tmp_path, monkeypatch):
    monkeypatch.setenv("MICA_GPU_LOCK", str(tmp_path / "lock"))
    return tmp_path / "lock"


def is_free(lock):
    """As another process sees it: locks are those of open files."""
    with open(lock, "a", encoding="utf-8") as f:
        return not measure._is_busy(f)


def test_a_turn_within_a_turn_is_part_of_it(lock):
    with measure.turn():
        with measure.turn():
            assert measure.has_turn() and not is_free(lock)
        assert measure.has_turn() and not is_free(lock)
    assert not measure.has_turn() and is_free(lock)
    with pytest.raises(KeyError), measure.turn():
        raise KeyError
    assert is_free(lock)


def test_a_forked_process_does_not_keep_the_turn(lock):
    read, write = os.pipe()
    with measure.turn():
        child = os.fork()
        if not child:  # it has the lock's file open until the pipe ends
            os.close(write)
            os.read(read, 1)
            os._exit(0)
    free = is_free(lock)
    os.close(write), os.close(read), os.waitpid(child, 0)
    assert free


def test_who_waits_for_a_turn_does_not_spend_the_time(lock):
    begun, done = threading.Event(), []
    b = budget.Budget(100)

    def other():
        with measure.turn():
            begun.set()
            time.sleep(0.3)
    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    begin = time.monotonic()
    with b.program(), measure.turn():
        done.append(time.monotonic() - begin)
    thread.join()
    assert done[0] > 0.2 and b.spent < done[0] - 0.2


def test_nobody_waits_without_a_lock(monkeypatch):
    monkeypatch.setenv("MICA_GPU_LOCK", "/nowhere/at/all")
    with measure.turn():
        assert not measure.has_turn()


def test_no_search_begins_within_a_turn(lock):
    from mica.torch.options import Options
    with measure.turn(), pytest.raises(RuntimeError, match="would wait for itself"):
        engine.compile("program p { x: f32[2] return x * 2 }", "cpu", Options())


def test_a_database_that_others_may_write_is_said_once(tmp_path, monkeypatch, caplog):
    engine._say_no_database.cache_clear()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("MICA_DB", str(tmp_path / "open" / "a.db"))
    options = {**ALL, "search": {k: v for k, v in ALL["search"].items() if k != "remember"}}
    with torch.no_grad():
        taken = [explain(lambda x, by=by: (x * by).relu() + x, torch.randn(8, 8), options=options).taken for by in (2, 3)]
    assert all(len(t) == 3 for t in taken)
    assert sum("can be written by other users" in r.message for r in caplog.records) == 1


def test_programs_share_the_time_by_what_they_need_at_least():
    weights = budget.weights_of([("large", 1e9), ("layer", 1e8), ("layer", 1e8), ("small", 1)])
    assert weights["large"] == 1e9 and weights["layer"] == 2e8 and weights["small"] == pytest.approx(0.1 * 1.2e9 / 3)
    b = budget.Budget(30)
    b.begin(list(weights.values()))
    assert b.share_of(weights["large"]) > 20 and sum(b.share_of(w) for w in weights.values()) == pytest.approx(30)
    assert budget.weights_of([]) == {}


def test_the_first_turn_has_most_of_the_time():
    b = budget.Budget(28, 3)
    b.begin([1])
    assert b.share == pytest.approx(20) and b.limit == pytest.approx(20)
    b.begin([1, 1])
    assert b.part == pytest.approx(4) and b.share == pytest.approx(2) and b.limit == pytest.approx(24)
    b.begin([1])
    assert b.limit == pytest.approx(28)


def test_few_programs_have_time_if_shares_would_be_too_short():
    b = budget.Budget(10, useful=2)
    weights = [8, 1, 4, 2, 1, 3, 6, 1]
    b.begin(weights)
    assert [w for w in weights if b.share_of(w)] == [8, 4, 6] and b.share_of(4) == pytest.approx(40 / 18)
    for w in weights:
        with b.program(w):
            assert (b.for_search(False) > 0) == (w > 3)
    assert b.waiting == 0
    b.begin([1, 1])
    assert b.share_of(1) > 0
    short = budget.Budget(1, useful=2)
    short.begin([3, 5])
    assert short.share_of(5) == pytest.approx(1) and short.share_of(3) == 0
    short.begin([1] * 9)
    assert short.share_of(1) > 0


def test_a_program_needs_its_operations_or_its_bytes():
    from mica.torch.program import Input, Output, Program
    from mica.torch.emit import Value
    x, w, y = (Value(n, s, "f32") for n, s in (("x", (1, 64)), ("w", (64, 64)), ("y", (1, 64))))
    p = Program("", [Input("raw", None, x), Input("raw", None, w)], [Output(None, y, torch.float32)], 2 * 64 * 64, 1)
    assert budget.bound_of(p) == budget.OPERATIONS * 4 * (64 + 4096 + 64)
    p.work = 1e9
    assert budget.bound_of(p) == 1e9


@pytest.mark.parametrize("take, stopped, unmeasured, op_by_op", [
    ("faster", True, "the time was over", True), ("faster", False, "there is no GPU", True), ("faster", True, "", True),
    ("all", True, "the time was over", True),
    ("faster", True, "there was no time to measure the whole program; its subprograms were", False)])
def test_a_program_that_never_ran_is_not_measured(monkeypatch, tmp_path, take, stopped, unmeasured, op_by_op):
    saved = []
    report = {"stopped": stopped, "gpu": {"unmeasured": unmeasured}, "best": {"op_by_op": op_by_op}}
    program = types.SimpleNamespace(report=report, save=saved.append)
    monkeypatch.setattr(engine, "_optimize", lambda *_, **__: program)
    options = types.SimpleNamespace(take=take, progress=None)
    left = take == "faster" and stopped and unmeasured and op_by_op
    if left:
        with pytest.raises(engine.EngineError, match=f"{unmeasured}; .*time"):
            engine._make("text", "sm_90a", {}, options, 1, str(tmp_path))
    else:
        engine._make("text", "sm_90a", {}, options, 1, str(tmp_path))
    assert bool(saved) == (not left)
