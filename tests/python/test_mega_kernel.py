"""PersistentKernel: MPK's Qwen3 demo is the model of the same configuration; calls that it does not support are errors. mica.models."""
import importlib.util
import json
import os

import numpy as np
import pytest

import mica
from mica import mega, models

EXAMPLES = os.path.join(os.path.dirname(__file__), "../../examples/mega")


def demo():
    spec = importlib.util.spec_from_file_location("qwen3_demo", os.path.join(EXAMPLES, "qwen3_demo.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built():
    with open(os.path.join(EXAMPLES, "tiny_qwen3.json")) as f:
        c = json.load(f)
    d = demo()
    w = d.random_model(c)
    return c, w, d.build(c, w, num_workers=3, deadline=60)


def test_demo_is_the_model(built):
    c, w, mpk = built
    model = mega.from_config(c, rows=4, pages=16, workers=3, deadline=60)
    model.load({k + ".weight": v for k, v in w.items() if k != "lm_head" or not c.get("tie_word_embeddings")})
    if c.get("tie_word_embeddings"):
        pytest.skip("the demo's head is a table of its own")
    prompts = [[1, 2, 3], [40, 50], [7] * 9, [3]]
    assert mpk(prompts, max_tokens=10) == model.generate(prompts, 10)
    assert mpk(prompts, max_tokens=10, temperature=0.9, seed=4) != mpk(prompts, max_tokens=10)


def test_layers_are_a_loop(built):
    c, _, mpk = built
    text = mpk.text()
    assert text.count("operator") == 9 and f"[{c['num_hidden_layers']}]" in text and "qknorm_served_attention" in text and "rmsnorm_gate_up" in text


def test_tokens_of_meta_tensors(built):
    c, w, mpk = built
    tokens = np.zeros((2, 12), "i8")
    tokens[0, :3], tokens[1, :2] = [1, 2, 3], [40, 50]
    mpk.meta, mpk.max_seq_length = {"tokens": tokens, "prompt_lengths": np.array([3, 2])}, 12
    made = mpk()
    assert [len(m) for m in made] == [9, 10] and list(tokens[0, 3:]) == made[0] and list(tokens[1, 2:]) == made[1]
    mpk.eos = made[0][4]
    assert mpk()[0] == made[0][:made[0].index(mpk.eos) + 1]


def test_what_is_refused():
    with pytest.raises(mica.UsageError, match="world_size is 2"):
        mega.PersistentKernel(world_size=2)
    k = mega.PersistentKernel(rope_theta=10000.0)
    x = k.attach_input(np.zeros((1, 1), "i8"), "tokens")
    a, b, c = (k.new_tensor((1, 32), name="y") for _ in range(3))
    weight = k.attach_input(np.zeros((32, 32), "f4"), "w")
    with pytest.raises(mica.UsageError, match="weight has no values"):
        k.linear_layer(a, b, c)
    with pytest.raises(mica.UsageError, match="a int is no tensor"):
        k.linear_layer(3, weight, c)
    with pytest.raises(mica.UsageError, match="begins with embed_layer"):
        k.compile()
    with pytest.raises(mica.UsageError, match="compile comes before"):
        k([[1]])
    k.embed_layer(x, weight, a)
    k.linear_layer(c, weight, b)
    k.argmax_layer(b, x)
    with pytest.raises(mica.UsageError, match="reads y_2, which"):
        k.compile()
    k.calls.clear()
    k.embed_layer(x, weight, a)
    k.linear_layer(a, weight, b)
    k.silu_mul_layer(b, c)
    k.argmax_layer(c, x)
    with pytest.raises(mica.UsageError, match="silu_mul_layer of y_1"):
        k.compile()


def test_theta():
    from mica.mega.kernel import theta_of
    for theta in (10000.0, 500000.0, 1e6):
        for dim in (8, 64, 128):
            table = np.cos(np.arange(4)[:, None] * theta ** (-2.0 * (np.arange(dim) % (dim // 2)) / dim)).astype("f4")
            assert abs(theta_of(table, dim) / theta - 1) < 0.03
    with pytest.raises(mica.UsageError, match="no rotary embedding with one base"):
        theta_of(np.linspace(-1, 1, 32).reshape(2, 16).astype("f4"), 16)


def test_models():
    path = os.path.join(EXAMPLES, "tiny_llama.json")
    model = models.Llama.from_config(path, seed=3, workers=2, deadline=60)
    assert model.generate([[1, 2]], 5) == mega.from_config(path, workers=2, deadline=60).random(3).generate([[1, 2]], 5)
    with pytest.raises(mica.UsageError, match="of llama, and Qwen3"):
        models.Qwen3.from_config(path)
    with pytest.raises(mica.UsageError, match="no weights yet"):
        models.Llama.from_config(path, seed=None).generate([[1]], 1)
