"""Language models as persistent kernels: tokens and logits against a transformer in numpy, requests that join and leave, weights by name and file."""
import json
import os
import struct

import numpy as np
import pytest

import mica
from mica import mega

EXAMPLES = os.path.join(os.path.dirname(__file__), "../../examples/mega")


def config_of(name):
    with open(os.path.join(EXAMPLES, name)) as f:
        return json.load(f)


def random_weights(c, seed=0):
    """By the names of transformers, [out, in]."""
    r = np.random.default_rng(seed)
    h, q, kv, d, i = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"], c["intermediate_size"]
    gain = lambda n: (1 + 0.1 * r.standard_normal(n)).astype("f4")
    matrix = lambda out, n: (r.standard_normal((out, n)) / np.sqrt(n)).astype("f4")
    w = {"model.embed_tokens.weight": matrix(c["vocab_size"], h), "model.norm.weight": gain(h)}
    if not c.get("tie_word_embeddings"):
        w["lm_head.weight"] = matrix(c["vocab_size"], h)
    for l in range(c["num_hidden_layers"]):
        at = f"model.layers.{l}."
        w[at + "input_layernorm.weight"], w[at + "post_attention_layernorm.weight"] = gain(h), gain(h)
        for n, rows in (("q", q * d), ("k", kv * d), ("v", kv * d)):
            w[at + f"self_attn.{n}_proj.weight"] = matrix(rows, h)
        if c["model_type"].startswith("qwen3"):
            w[at + "self_attn.q_norm.weight"], w[at + "self_attn.k_norm.weight"] = gain(d), gain(d)
        w[at + "self_attn.o_proj.weight"] = matrix(h, q * d)
        mlps = [at + "mlp."]
        if c.get("num_experts"):
            w[at + "mlp.gate.weight"] = matrix(c["num_experts"], h)
            mlps = [f"{at}mlp.experts.{e}." for e in range(c["num_experts"])]
        for m in mlps:
            inner = c.get("moe_intermediate_size", i)
            w[m + "gate_proj.weight"], w[m + "up_proj.weight"], w[m + "down_proj.weight"] = matrix(inner, h), matrix(inner, h), matrix(h, inner)
    return w


def mlp(w, at, y):
    g = y @ w[at + "gate_proj.weight"].T
    return (g / (1 + np.exp(-g)) * (y @ w[at + "up_proj.weight"].T)) @ w[at + "down_proj.weight"].T


def experts(c, w, at, y):
    s = np.exp(y @ w[at + "gate.weight"].T)
    chosen = np.argsort(-s, -1, kind="stable")[:, :c["num_experts_per_tok"]]
    scale = np.take_along_axis(s, chosen, -1)
    scale /= scale.sum(-1, keepdims=True)
    return np.stack([sum(f * mlp(w, f"{at}experts.{e}.", row) for e, f in zip(es, fs)) for row, es, fs in zip(y, chosen, scale)])


def reference(c, w, tokens):
    """Logits after each token, in float64."""
    eps, d, q, kv = c.get("rms_norm_eps", 1e-6), c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
    w = {k: v.astype("f8") for k, v in w.items()}
    norm = lambda x, g: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g
    n = len(tokens)
    angle = np.arange(n)[:, None] * c["rope_theta"] ** (-2.0 * np.arange(d // 2) / d)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    turn = lambda x: np.concatenate([x[..., :d // 2] * cos - x[..., d // 2:] * sin, x[..., d // 2:] * cos + x[..., :d // 2] * sin], -1)
    x = w["model.embed_tokens.weight"][tokens]
    for l in range(c["num_hidden_layers"]):
        at = f"model.layers.{l}."
        y = norm(x, w[at + "input_layernorm.weight"])
        Q, K, V = ((y @ w[at + f"self_attn.{n_}_proj.weight"].T).reshape(n, -1, d) for n_ in "qkv")
        if c["model_type"].startswith("qwen3"):
            Q, K = norm(Q, w[at + "self_attn.q_norm.weight"]), norm(K, w[at + "self_attn.k_norm.weight"])
        Q, K = turn(Q), np.repeat(turn(K), q // kv, 1)
        s = np.einsum("ihd,jhd->hij", Q, K) / np.sqrt(d) + np.where(np.tri(n) > 0, 0, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        o = np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), np.repeat(V, q // kv, 1)).reshape(n, -1)
        x = x + o @ w[at + "self_attn.o_proj.weight"].T
        y = norm(x, w[at + "post_attention_layernorm.weight"])
        x = x + (experts(c, w, at + "mlp.", y) if c.get("num_experts") else mlp(w, at + "mlp.", y))
    return norm(x, w["model.norm.weight"]) @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def greedy(c, w, prompt, n):
    tokens = list(prompt)
    for _ in range(n):
        tokens.append(int(reference(c, w, tokens)[-1].argmax()))
    return tokens[len(prompt):]


MODELS = [("tiny_llama.json", 1), ("tiny_qwen3.json", 1), ("tiny_qwen3.json", 3), ("tiny_qwen3_moe.json", 2)]


@pytest.fixture(scope="module", params=MODELS)
def loaded(request):
    name, parts = request.param
    c = config_of(name)
    w = random_weights(c)
    return c, w, mega.from_config(c, rows=4, pages=12, workers=3, deadline=60, attention_parts=parts).load(w)


def test_logits_of_a_prompt(loaded):
    c, w, model = loaded
    tokens = [5, 17, 3, 99, 42, 8, 1]
    want = reference(c, w, tokens)
    rows = [mega.Row(0, t, at, (3,)) for at, t in enumerate(tokens)]
    for first in (0, 4):  # four rows, then three
        _, logits = model.step(rows[first:first + 4], logits=True)
        got = np.asarray(logits)
        for i in range(min(4, 7 - first)):
            assert np.abs(got[i] - want[first + i]).max() < 1e-4
    assert model.seconds > 0 and model.fault == ""


def test_generate(loaded):
    c, w, model = loaded
    prompts = [[1, 2, 3], [7], list(range(10, 21)), [50, 60]]
    assert model.generate(prompts, max_tokens=6) == [greedy(c, w, p, 6) for p in prompts]
    a, b = (model.generate(prompts, max_tokens=12, temperature=1.0, top_k=k, seed=3) for k in (0, 2))
    assert a != b and a == model.generate(prompts, max_tokens=12, temperature=1.0, seed=3, burst=1)
    assert a != model.generate(prompts, max_tokens=12, temperature=1.0, seed=4)


def test_requests_join_and_leave(loaded):
    c, w, model = loaded
    batch, prompts = mega.Batch(model), [[1 + i, 40 + i, 9] * (1 + i) for i in range(7)]  # more than there are rows
    heard, requests = {}, []
    for i, p in enumerate(prompts):
        requests.append(batch.submit(p, 4 + i % 3, on_token=lambda r, t: heard.setdefault(r.id, []).append(t)))
        batch.step()
    batch.cancel(requests[5])
    while batch.busy:
        batch.step()
    for i, (r, p) in enumerate(zip(requests, prompts)):
        want = greedy(c, w, p, 4 + i % 3)
        assert r.made == want[:len(r.made)] and (i == 5 or r.made == want) and heard[r.id] == r.made + [None]
    assert sorted(batch.free) == list(range(1, model.pages)) and not batch.promised
    assert [r.done for r in requests] == ["length"] * 5 + ["cancelled", "length"]
    want = greedy(c, w, prompts[0], 9)
    stopped = batch.submit(prompts[0], 9, stop=[want[2]])
    while batch.busy:
        batch.step()
    assert stopped.done == "stop" and stopped.made == want[:want.index(want[2]) + 1]


def test_what_is_refused(loaded):
    c, w, model = loaded
    batch = mega.Batch(model)
    for prompt, options, says in [([], {}, "one token or more"), ([1], {"max_tokens": 64 * 11}, "the cache has 11"),
                                  ([c["vocab_size"]], {}, "tokens are from 0"),
                                  ([1], {"temperature": -1}, "temperature"), ([1], {"top_k": 65}, "top_k")]:
        with pytest.raises(mica.UsageError, match=says):
            batch.submit(prompt, **options)
    with pytest.raises(mica.UsageError, match="5 rows are given"):
        model.step([mega.Row()] * 5)
    with pytest.raises(mica.UsageError, match="another row has the page"):
        model.step([mega.Row(0, 1, 0, (1,)), mega.Row(1, 1, 0, (1,))])
    with pytest.raises(mica.UsageError, match="weights are fixed"):
        model.random(1)
    with pytest.raises(mica.ArgumentError, match="not dense"):
        model._mega.weights("table", np.ones((1,) * 40, "f4"))


def test_hung_and_on():
    model = mega.from_config(config_of("tiny_llama.json"), workers=2, deadline=0.3).random(1)
    want = model.generate([[1, 2]], 3)
    model._mega.plant(True)
    with pytest.raises(mica.NotEqualError, match="waited for"):
        model.generate([[1, 2]], 3)
    assert "waited for" in model.fault
    model._mega.plant(False)
    assert model.generate([[1, 2]], 3) == want


def test_texts(tmp_path):
    model = mega.from_config(os.path.join(EXAMPLES, "tiny_qwen3.json"), workers=2)
    assert "served_attention" in model.plan() and "fence" in model.prove() and "mega_kernel" in model.source()
    with pytest.raises(mica.UsageError, match="no weights yet: table"):
        model.step([])
    model.random(2)
    with pytest.raises(mica.UsageError, match="nothing to trace"):
        model.trace(str(tmp_path / "t.json"))
    model.step([mega.Row(0, 1, 0, (1,))])
    model.trace(str(tmp_path / "t.json"))
    names = {x["name"] for x in json.load(open(tmp_path / "t.json"))["traceEvents"]}
    assert {"attend[1]", "head"} <= names
    again = mega.from_text(model.plan("text"), workers=2).random(2)  # the text form is the same model
    assert again.generate([[3, 4]], 5) == mega.from_config(config_of("tiny_qwen3.json"), workers=2).random(2).generate([[3, 4]], 5)


# ---- files ----

def save(path, tensors, change=lambda h: h, extra=b""):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, a) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [len(data), len(data) + a.nbytes]}
        data += a.tobytes()
    text = json.dumps(change(header)).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data + extra)


def test_safetensors(tmp_path):
    c = config_of("tiny_llama.json")
    w = random_weights(c, 4)
    words = lambda a: (a.view("u4") >> 16).astype("u2")
    names = sorted(w)
    save(tmp_path / "a.safetensors", {n: ("F32", w[n]) for n in names[:5]})
    save(tmp_path / "b.safetensors", {n: ("BF16", words(w[n])) for n in names[5:]})
    (tmp_path / "config.json").write_text(json.dumps(c))
    model = mega.from_folder(tmp_path, workers=2, deadline=60)
    rounded = {n: w[n] if n in names[:5] else (words(w[n]).astype("u4") << 16).view("f4") for n in names}
    assert model.generate([[1, 2, 3]], 5) == [greedy(c, rounded, [1, 2, 3], 5)]
    with pytest.raises(mica.UsageError, match="missing: model.layers.0.input_layernorm.weight"):
        mega.from_config(c).load({n: w[n] for n in names if "input_layernorm" not in n})
    with pytest.raises(mica.UsageError, match="not known: x"):
        mega.from_config(c).load(w | {"x": w[names[0]]})
    with pytest.raises(mica.UsageError, match="has the shape"):
        mega.from_config(c).load(w | {"model.norm.weight": np.ones(3, "f4")})


@pytest.mark.parametrize("change, says", [
    (lambda h: [], "no object"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, "x has 4 bytes"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4 << 40]}}, "and the file has"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [-1], "data_offsets": [8, 4]}}, "no size"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, "no size"),
    (lambda h: h | {"x": {"dtype": "I7", "shape": [1], "data_offsets": [0, 4]}}, "x is I7"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [1]}}, "lacks dtype"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [0, 10**30], "data_offsets": [0, 0]}}, "no size"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [1] * 100, "data_offsets": [0, 4]}}, "100 dimensions"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}, "overlaps"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}, "overlaps"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, "no size"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 4]}}, "no size"),
    (lambda h: h | {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, "lacks dtype"),
    (lambda h: h | {"x": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, "x is"),
])
def test_safetensors_that_are_wrong(tmp_path, change, says):
    save(tmp_path / "a.safetensors", {"y": ("F32", np.ones(4, "f4"))}, change)
    with pytest.raises(mica.UsageError, match=says):
        mega.read_safetensors(tmp_path)


def header_of(text):
    return struct.pack("<Q", len(text)) + text


def test_files_that_are_none(tmp_path):
    with pytest.raises(mica.UsageError, match="no file"):
        mega.read_safetensors(tmp_path)
    for text, says in ((b"", "longer than the file"), (b"\xff" * 16, "longer than the file"), (struct.pack("<Q", 4) + b"abcd", "no JSON"),
                       (header_of(b"[" * 100000), "no JSON"), (header_of(b'{"x": 1, "x": 2}'), "there twice"),
                       (header_of(b'{"x": 1}')[:-1], "longer than the file")):
        (tmp_path / "a.safetensors").write_bytes(text)
        with pytest.raises(mica.UsageError, match=says):
            mega.read_safetensors(tmp_path)
