"""Language models by their architecture: mica.models.Llama, Qwen3 and Qwen3Moe, on persistent kernels (docs/mega.md)."""
from __future__ import annotations

from . import mega
from ._mica import UsageError


class _Family:
    """A model architecture. from_config and from_folder return a mica.mega.Model, which has step and generate."""
    model_type = ""

    @classmethod
    def _of(cls, model: mega.Model) -> mega.Model:
        found = (model.config or {}).get("model_type")
        if found != cls.model_type:
            raise UsageError(f"the configuration is of {found}, and {cls.__name__} is of {cls.model_type}")
        return model

    @classmethod
    def from_config(cls, config, *, seed: int | None = 0, **options) -> mega.Model:
        """A model with random weights by `seed`. seed=None: without weights, which load then sets."""
        model = cls._of(mega.from_config(config, **options))
        return model if seed is None else model.random(seed)

    @classmethod
    def from_folder(cls, folder, **options) -> mega.Model:
        """The model of a folder with config.json and safetensors."""
        return cls._of(mega.from_folder(folder, **options))


class Llama(_Family):
    model_type = "llama"


class Qwen3(_Family):
    model_type = "qwen3"


class Qwen3Moe(_Family):
    model_type = "qwen3_moe"
