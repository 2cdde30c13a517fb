"""Tensors that a model changes in place stay in place: caches of all kinds, and the judging of programs, which changes copies alone."""
import copy

import pytest

from conftest_torch import ALL, close, compiled, torch
import torch_models as models

import mica.torch
from mica.torch import fuse, inductor, measure, mutations

nn = torch.nn
MOST = 48  # positions of a cache: no other extent is that


@pytest.fixture(autouse=True)
def unseen(monkeypatch):
    """Programs are taken without a search: the nodes themselves stand for them."""
    def take(region, bucket, real, taken):
        taken.text, taken.taken = region.build(bucket).text, True
        return lambda args: [o.clone() for o in region.module(*args)]
    torch.manual_seed(0)
    mica.torch.library._regions.clear()
    monkeypatch.setattr(mica.torch.region.Region, "compile", take)
    monkeypatch.setattr(mica.torch.region.Region, "prepared_inputs", lambda region: [])


def decoder(**more):
    model = models.CachedLlama(2, most=MOST, **more).eval()
    for layer in model.layers:
        layer.keys.normal_(), layer.values.normal_()
    return model


def caches(model):
    return [b for layer in model.layers for b in layer.buffers()]


def step(position):
    return torch.randn(2, 1, 64), torch.tensor([position])


@pytest.mark.parametrize("window", [None, 3], ids=["whole", "sliding"])
@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_decoding_with_a_static_cache(rest, window):
    ours, theirs = (copy.deepcopy(m) for m in [decoder(window=window)] * 2)
    run = compiled(ours, rest=rest)
    with torch.no_grad():
        for position in (5, 6, 7):
            x = step(position)
            close(run(*x), theirs(*x))
            for got, want in zip(caches(ours), caches(theirs)):
                close(got, want)


def nodes_of_cache(graph):
    """Operators whose result is as large as a cache."""
    return [n for n in graph.nodes if n.op == "call_function" and isinstance(n.meta.get("val"), torch.Tensor) and MOST in n.meta["val"].shape
            and n.meta["val"].numel() == 2 * 2 * MOST * 16]


def test_no_whole_cache_is_copied_as_python(monkeypatch):
    """The rows of a token are written in place: of what is as large as a cache, nothing else is computed."""
    seen, direct = [], fuse.direct
    monkeypatch.setattr(fuse, "direct", lambda gm: (direct(gm), seen.append(gm))[0])
    with torch.no_grad():
        compiled(decoder())(*step(3))
    (gm,) = seen
    assert [str(n.target) for n in nodes_of_cache(gm.graph)] == ["aten.index_copy_.default"] * 4
    assert not [n for n in gm.graph.nodes if n.target is torch.ops.aten.copy_.default]


def test_no_whole_cache_is_copied_by_inductor(monkeypatch):
    """The graph ends in a change of each cache instead of giving a new one, and the code makes no tensor of that size."""
    from torch._inductor.utils import run_and_get_code
    seen, make = [], inductor.compile
    monkeypatch.setattr(inductor, "compile", lambda gm, *a: (seen.append(mutations.written(gm.graph)), make(gm, *a))[1])
    with torch.no_grad():
        _, code = run_and_get_code(compiled(decoder(), rest="inductor"), *step(3))
    assert len(seen) == 1 and len(seen[0]) == 4
    assert code and not any(f"empty_strided_cpu((2, 2, {MOST}, 16)" in text for text in code)


def test_judging_changes_no_buffer(monkeypatch):
    """Only the rows of the token differ after the first call, though both sides of the race ran many times."""
    runs = []

    def race(ours, theirs, *_):
        for f in (ours, theirs) * 3:
            runs.append(f())
        return 1.0, 2.0
    monkeypatch.setattr(measure, "race", race)
    model = decoder()
    before, ours = copy.deepcopy(model), compiled(model, rest="inductor", take="faster")
    x = step(11)
    with torch.no_grad():
        got = ours(*x)
        for now, was in zip(caches(model), caches(before)):
            others = [i for i in range(MOST) if i != 11]
            assert torch.equal(now[:, :, others], was[:, :, others]) and not torch.equal(now[:, :, 11], was[:, :, 11])
        close(got, before(*x))
    assert len(runs) == 6


def test_cached_views_see_changes():
    """A graph that only reads a buffer copies views of it once a version; a change by another graph is a version."""
    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.randn(8, 16))

        def forward(self, x, write=False):
            if write:
                self.k.index_copy_(0, torch.tensor([1]), x)
                return x * 2
            return (x @ self.k.t()).relu() * 2

    model = Reads()
    for rest in ("eager", "inductor"):
        run, x = compiled(model, rest=rest), torch.randn(1, 16)
        with torch.no_grad():
            for write in (False, True, False):
                version = model.k._version
                run(x, write)
                assert (model.k._version > version) == write
            close(run(x), model(x))


# Functions of a tensor k that they change, x and an index; how many copies of whole tensors are saved where Python runs the graph.
def reads_before(k, x, at):
    return (k * 2).sum() + k.index_copy_(0, at, x).sum()


def old_value(k, x, at):
    old = k.clone()
    k.index_copy_(0, at, x)
    return old + k


def view_of_old(k, x, at):
    new = k.index_copy(0, at, x)
    row = k[0] * 3
    k.copy_(new)
    return row + k[0]


def twice(k, x, at):
    k.index_copy_(0, at, x)
    k.index_copy_(0, at + 1, x * 2)
    return k @ x.t()


def gives_it(k, x, at):
    k.index_copy_(0, at, x)
    return k


def gives_value(k, x, at):
    new = k.index_copy(0, at, x)
    k.copy_(new)
    return new


def itself(k, x, at):
    k.add_(k)
    return k @ x.t()


def puts(k, x, at):
    k[at] = x
    return k * 2


def adds(k, x, at):
    k.add_(1)
    return k * 2


def widens(k, x, at):
    k.copy_(x.expand(4, 8))
    return k + 1


CHANGES = [(reads_before, None), (old_value, 2), (view_of_old, None), (twice, 3), (gives_it, 2), (gives_value, 0), (itself, 0), (puts, 2), (adds, 0),
           (widens, 0)]


@pytest.mark.parametrize("f, saved", CHANGES, ids=lambda f: getattr(f, "__name__", None))
def test_changes_are_those_of_eager(monkeypatch, f, saved):
    counts, rewrite = [], mutations.in_place
    monkeypatch.setattr(mutations, "in_place", lambda graph: counts.append(rewrite(graph)))
    k, x, at = torch.randn(4, 8), torch.randn(1, 8), torch.tensor([1])
    for rest in ("eager", "inductor"):
        ours, theirs = k.clone(), k.clone()
        with torch.no_grad():
            run = compiled(f, rest=rest)
            for _ in range(2):
                got, want = run(ours, x, at), f(theirs, x, at)
                close(got, want), close(ours, theirs)
        assert rest == "inductor" or (got is ours) == (want is theirs)  # Inductor gives the input for a value that is written to it
    assert saved is None or counts[0] == saved, counts


class Grows(nn.Module):
    """A cache that a token is joined to."""

    def forward(self, x, keys):
        keys = torch.cat([keys, x], 1)
        return (x @ keys.transpose(1, 2)).softmax(-1) @ keys, keys


@pytest.mark.parametrize("rest", ["eager", "inductor"])
def test_decoding_with_a_growing_cache(rest):
    run, ours, theirs = compiled(Grows(), rest=rest), torch.randn(2, 3, 16), None
    theirs = ours.clone()
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(2, 1, 16)
            (got, ours), (want, theirs) = run(x, ours), Grows()(x, theirs)
            close(got, want), close(ours, theirs)


@pytest.mark.parametrize("cache", ["static", "dynamic", "sliding"])
def test_generate(cache):
    """Hugging Face's generate() gives eager's tokens."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                 max_position_embeddings=64)
    if cache == "sliding":
        config, kind = transformers.MistralConfig(**sizes, sliding_window=4), transformers.MistralForCausalLM
    else:
        config, kind = transformers.LlamaConfig(**sizes), transformers.LlamaForCausalLM
    model, prompt = kind(config).eval(), torch.randint(0, 64, (1, 5))
    how = dict(max_new_tokens=6, do_sample=False, pad_token_id=0, cache_implementation="dynamic" if cache == "dynamic" else "static")
    with torch.no_grad():
        want = model.generate(prompt, **how, disable_compile=True)
        model.forward = compiled(model.forward)
        got = model.generate(prompt, **how, disable_compile=True)
    assert torch.equal(got, want)
