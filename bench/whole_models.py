"""Five whole models of Hugging Face's transformers, by configuration and with random weights: the sizes of those that are published.

`case` gives (name, model, inputs) for bench/torch_models.py. On a CPU they have fewer layers and rows, which SMALL says.
"""
import torch
import transformers as tf
from torch import nn
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

LLAMA = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
         "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": True, "rms_norm_eps": 1e-5,
         "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                             "original_max_position_embeddings": 8192}}
WHISPER = {"d_model": 384, "decoder_layers": 4, "decoder_attention_heads": 6, "decoder_ffn_dim": 1536, "encoder_layers": 4, "vocab_size": 51865}
LAYERS = ("num_hidden_layers", "n_layer", "decoder_layers")  # names of their number

# name: (configuration, settings, model, how it is called)
MODELS = {
    "llama-3.2-1b": (tf.LlamaConfig, LLAMA, tf.LlamaForCausalLM, {"use_cache": True, "logits_to_keep": 1}),
    "bert-base": (tf.BertConfig, {}, tf.BertModel, {}),
    "vit-b16": (tf.ViTConfig, {}, tf.ViTModel, {}),
    "gpt2": (tf.GPT2Config, {}, tf.GPT2LMHeadModel, {"use_cache": True, "logits_to_keep": 1}),
    "whisper-tiny": (tf.WhisperConfig, WHISPER, tf.models.whisper.modeling_whisper.WhisperDecoder,
                     {"use_cache": True, "past_key_values": lambda: EncoderDecoderCache(DynamicCache(), DynamicCache())}),
}
# name: (rows, tokens) on a GPU, and (rows, tokens, layers) on a CPU
LARGE = {"llama-3.2-1b": (1, 512), "bert-base": (8, 384), "vit-b16": (8, 224), "gpt2": (8, 512), "whisper-tiny": (8, 448)}
SMALL = {"llama-3.2-1b": (1, 128, 1), "bert-base": (1, 128, 2), "vit-b16": (1, 224, 2), "gpt2": (1, 128, 2), "whisper-tiny": (1, 128, 2)}


class Whole(nn.Module):
    """A model as a function of tensors that returns its first result."""

    def __init__(self, model, names, settings):
        super().__init__()
        self.model, self.names, self.settings = model, names, settings

    def forward(self, *inputs):
        settings = {name: value() if callable(value) else value for name, value in self.settings.items()}
        return self.model(**dict(zip(self.names, inputs)), **settings, return_dict=True)[0]


def inputs_of(name, rows, tokens, config):
    """By name, in order."""
    ids = torch.randint(3, config.vocab_size, (rows, tokens)) if hasattr(config, "vocab_size") else None
    if name == "vit-b16":
        return {"pixel_values": torch.randn(rows, 3, tokens, tokens)}
    if name == "bert-base":  # the rows have different lengths
        return {"input_ids": ids, "attention_mask": (torch.arange(tokens) < tokens - 16 * torch.arange(rows)[:, None]).long()}
    if name == "whisper-tiny":
        return {"input_ids": ids, "encoder_hidden_states": torch.randn(rows, config.max_source_positions, config.d_model)}
    return {"input_ids": ids}


def case(name, gpu, layers=None):
    """(name, model, inputs). layers: number of layers, instead of all."""
    kind, settings, model, called = MODELS[name]
    rows, tokens, fewer = LARGE[name] + (layers,) if gpu else SMALL[name][:2] + (layers or SMALL[name][2],)
    config = kind(**settings)
    if fewer:
        setattr(config, next(n for n in LAYERS if n in config.to_dict()), fewer)
    inputs = inputs_of(name, rows, tokens, config)
    return name, Whole(model(config), tuple(inputs), called), tuple(inputs.values())
