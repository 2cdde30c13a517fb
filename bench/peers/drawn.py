"""The list of workloads that a seed draws from families.py: programs of Mica, and ways to compute them."""
import functools
import math
import os
import random
import re
from types import SimpleNamespace

from . import third
from .attention import attn
from .env import F, Sizes, torch
from .families import FAMILIES
from .program import Program
from .workload import WORKLOADS, Workload, comp, eager, tn

MOST_FLOPS = 1.2e12   # of a workload: about 1.5 ms of an H200
MOST_SCORES = 1 << 30  # of attention: the reference holds all of them
MOST_BYTES = 1 << 31
BACKENDS = (("auto", None), ("flash", "FLASH_ATTENTION"), ("cudnn", "CUDNN_ATTENTION"), ("effic", "EFFICIENT_ATTENTION"))


def whole(expression, sizes):
    """An expression of the language over integers; '/' divides exactly there."""
    return eval(expression.replace("/", "//").replace("////", "//"), {}, sizes)


def tiny(n):
    """A small extent of the same kind: odd or even, a multiple of 16, a few."""
    return n if n <= 40 else 16 + 16 * (n // 16 % 3) if n % 16 == 0 else 20 + n % 21 + (n + 20 + n % 21) % 2


class Drawn:
    """One workload: a family with sizes and a kind."""

    def __init__(self, name, family, kind, sizes):
        self.name, self.family, self.kind, self.sizes = name, family, kind, sizes
        expression, self.f, self.out = (tuple(family.kinds[kind]) + (family.out,))[:3] if kind else ("", None, family.out)
        self.body = family.program.replace("%s", expression)
        self.inputs = re.findall(r"(\w+): f16\[([^\]]*)\]", self.body)

    def small(self):
        return {k: tiny(v) if Sizes.tiny else v for k, v in self.sizes.items()}

    def shape(self, text, sizes=None):
        return tuple(whole("(%s,)" % text, sizes or self.small()))

    def flops(self):
        return whole(self.family.flops, self.sizes)

    def elements(self):
        return sum(math.prod(self.shape(text, self.sizes)) for text in [t for _, t in self.inputs] + [self.out])

    def too_large(self):
        s = self.sizes
        scores = s.get("b", 1) * s.get("h", 1) * s.get("g", 1) * s.get("t", 1) * s.get("s", s.get("t", 1)) if self.family.attends else 0
        return self.flops() > MOST_FLOPS or scores > MOST_SCORES or 2 * self.elements() > MOST_BYTES

    def point(self, at=None):
        """The argument p of torch functions."""
        return SimpleNamespace(f=self.f, at=at or attention, **self.small())

    def text(self):
        name = self.name.replace("/", "_")
        head = "program %s(%s) {" % (name, ", ".join("%s = %d" % x for x in self.sizes.items()))
        return "\n  ".join([head] + self.body.split("; ")) + "\n}\n"


def draw(seed):
    """Name -> Drawn, and name -> reason for families that have no program."""
    known, without = {}, {}
    for name, family in FAMILIES.items():
        if family.program is None:
            without["fam/%s" % name] = family.reason
            continue
        rng, seen = random.Random("%d/%s" % (seed, name)), set()
        kinds = rng.sample(sorted(family.kinds), len(family.kinds)) or [None]
        while len(seen) < family.count:
            kind = kinds[len(seen) % len(kinds)]
            sizes = {}
            for names, values in family.sizes.items():
                value = rng.choice(values)
                sizes.update(zip(names.split(), value if isinstance(value, tuple) else (value,)))
            d = Drawn("fam/%s/%d" % (name, len(seen)), family, kind, sizes)
            if (kind, tuple(sizes.values())) not in seen and not d.too_large():
                seen.add((kind, tuple(sizes.values())))
                known[d.name] = d
    return known, without


@functools.lru_cache
def programs(seed):
    """As programs.programs() for the fixed list; writes the files, into $FAMILIES (build/families unless set)."""
    out, where = {}, os.path.join(os.environ.get("FAMILIES", os.path.join("build", "families")), str(seed))
    os.makedirs(where, exist_ok=True)
    for name, d in draw(seed)[0].items():
        path = os.path.join(where, name.replace("/", "_") + ".mica")
        with open(path, "w") as f:
            f.write(d.text())
        out[name] = Program(path)
    return out


def attention(q, k, v, mask=None, scale=None, cap=None):
    """As torch's own operators compute it."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    s = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = cap * torch.tanh(s / cap) if cap else s
    return torch.softmax(s if mask is None else s + mask, -1) @ v


def sdpa(backend, causal):
    """torch's scaled_dot_product_attention by one backend; a causal mask by its index form, so that the operand is not read."""
    def call(q, k, v, mask=None, scale=None, cap=None):
        if cap:
            raise RuntimeError("SDPA has no soft cap")
        more = {"attn_mask": mask, "enable_gqa": q.shape[1] != k.shape[1]}
        if causal and q.shape[2] == k.shape[2]:
            more.update(attn_mask=None, is_causal=True)
        elif causal:
            from torch.nn.attention.bias import causal_lower_right

            more["attn_mask"] = causal_lower_right(q.shape[2], k.shape[2])
        if backend is None:
            return F.scaled_dot_product_attention(q, k, v, scale=scale, **more)
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel([getattr(SDPBackend, backend)]):
            return F.scaled_dot_product_attention(q, k, v, scale=scale, **more)

    return call


def flex(q, k, v, mask=None, scale=None, cap=None):
    """FlexAttention with a soft cap or a mask as a function of scores; to be compiled."""
    from torch.nn.attention.flex_attention import flex_attention

    def score(s, b, h, i, j):
        s = cap * torch.tanh(s / cap) if cap else s
        return s if mask is None else s + mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])[b, h, i, j]

    return flex_attention(q, k, v, score_mod=score if cap or mask is not None else None, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def scale_of(d, name, text):
    """Standard deviation of an input: weights keep products of normal inputs normal."""
    shape = d.shape(text)
    if name in d.family.std:
        return eval(d.family.std[name], {}, vars(d.point()))
    return shape[-2] ** -0.5 if name.startswith("W") else 1.0


def mask(mk, shape, causal):
    """0 where a query reads a key, -inf elsewhere. Causal: the last query reads all keys; else a quarter is hidden."""
    x = mk.randn(shape)
    rows, columns = shape[-2:]
    hidden = torch.ones(shape, device=x.device).triu(columns - rows + 1) > 0 if causal else x < -0.67
    return torch.zeros_like(x).masked_fill_(hidden, float("-inf"))


def make_inputs(d):
    def make(mk):
        return tuple(mask(mk, d.shape(text), name == "C") if name in ("M", "C") else mk.randn(d.shape(text), scale_of(d, name, text))
                     for name, text in d.inputs)

    return make


def at(d, attend=None):
    p = d.point(attend)
    return lambda *ins: d.family.torch(p, *ins)


def attention_peers(d):
    """Forms of attention: all of attention.py for plain ones."""
    names = [n for n, _ in d.inputs]
    if d.family.plain:
        s = d.point()
        w = attn(d.name, s.b, s.h * getattr(s, "g", 1), s.h, s.t, getattr(s, "s", s.t), s.d)
        return [b for b in w.baselines if b.name != "eager"]
    if not d.family.attends:
        return []
    out = []
    for causal in ([False, True] if "C" in names or d.family.causal else [False]):
        for short, backend in BACKENDS:
            f = at(d, sdpa(backend, causal))
            f.sdpa_backend = backend
            out.append(eager("sdpa_%s%s" % (short, "_causal" if causal else ""), f))
    out.append(comp("compile_sdpa", at(d, sdpa(None, "C" in names or d.family.causal)), 3, mode="default"))
    out.append(comp("flex", at(d, flex), 2, mode="default"))
    out += third.attention.baselines(lambda attend: at(d, attend), "C" in names or d.family.causal, d.small().get("w", 0))
    return out


def transposed(f, which):
    return lambda *ins: f(*(x.t() if i in which else x for i, x in enumerate(ins)))


def concatenated(d):
    """(prep, function) with some weights joined along their columns."""
    names, fn = d.family.cat
    which = [[n for n, _ in d.inputs].index(n) for n in names.split()]
    p = d.point()

    def prep(ins):
        joined = torch.cat([ins[i] for i in which], 1)
        return tuple(joined if i == which[0] else x for i, x in enumerate(ins) if i not in which[1:])

    return prep, lambda *ins: fn(p, *ins)


def ways(d):
    """All baselines of a workload."""
    f = at(d)
    out = [eager("eager", f), comp("compile_default", f, 2, mode="default"), comp("compile", f, 3)] + attention_peers(d)
    out += [eager(n, lambda *ins, fn=fn: fn(d.point(), *ins)) for n, (kind, fn) in d.family.peers.items() if kind == d.kind]
    out += third.rows.baselines(d.name.split("/")[1], d.kind, d.point())
    weights = [i for i, (n, text) in enumerate(d.inputs) if n.startswith("W") and text.count(",") == 1]
    if weights:
        g, prep = transposed(f, weights), tn(*weights)
        out += [eager("eager_tn", g, prep=prep), comp("compile_tn", g, 4, prep=prep)]
    if d.family.cat:
        prep, g = concatenated(d)
        turned = transposed(g, weights[:1])

        def turn(ins):
            return tn(weights[0])(prep(ins))

        out += [eager("eager_cat", g, prep=prep), comp("compile_cat", g, 3, prep=prep)]
        out.append(comp("compile_cat_tn", turned, 4, prep=turn))
    return out


def define(seed):
    """The workloads of the seed, instead of the fixed list. The families that the language does not have yet: name -> reason."""
    known, without = draw(seed)
    del WORKLOADS[:]
    for d in known.values():
        shapes = (d.kind + ": " if d.kind else "") + " ".join("%s[%s]" % (n, ",".join(map(str, d.shape(t)))) for n, t in d.inputs)
        f = at(d)
        WORKLOADS.append(Workload(
            d.name, "fam_" + d.name.split("/")[1], shapes, d.flops() if not Sizes.tiny else 1, 2 * d.elements(),
            make_inputs(d), lambda *ins, f=f: f(*(x.float() for x in ins)), ways(d), note=d.kind or ""))
    return without
