"""MODELS: every model by name, filled by the files that define them.

    @MODELS.register("mine")
    def mine(options: ModelOptions) -> nn.Module: …

A package adds a model by an entry point of the group "adagq.models", a file by `plugins` in the settings. Weights are
drawn from torch's global generator, which is seeded before a builder is called. Scores have the classes in their second
dimension: (samples, classes), or (samples, classes, length) for a label a token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from torch import nn

from adagq.core.errors import ConfigError
from adagq.core.registry import Registry


@dataclass(frozen=True)
class ModelOptions:
    """The data's shape and what settings say about the model.

    `width`  channels after the first convolution (resnet18 and googlenet 64, cnn 32) or hidden units (mlp 200, lstm
             128); everything behind it scales along, so ResNet-18 of width 16 has a sixteenth of the parameters
    `stem`   of resnet18 and googlenet: "cifar" (one 3x3 convolution, stride 1: the 32x32 form) or "imagenet" (7x7,
             stride 2, and a max-pool: a sixteenth of the work per sample); resnet18 also has "stride2" (3x3, stride 2,
             no pooling: a quarter of the work)
    """

    shape: tuple[int, ...]  # of one sample
    classes: int
    width: int | None = None
    stem: str | None = None
    tokens: bool = False  # inputs are ids

    def image(self, model: str) -> tuple[int, int, int]:
        """Return (channels, height, width); ConfigError where samples are not images."""
        if self.tokens or len(self.shape) != 3:
            raise ConfigError(
                f"model {model} takes images (channels, height, width), not {self._samples()}; "
                "tables take mlp, tokens lstm"
            )
        channels, height, width = self.shape
        return channels, height, width

    def no_tokens(self, model: str) -> None:
        """Refuse token ids, which are no numbers to compute with."""
        if self.tokens:
            raise ConfigError(f"model {model} takes images and tables, not {self._samples()}; tokens take lstm")

    def width_or(self, default: int) -> int:
        """Return the width, or the model's own."""
        if self.width is not None and self.width < 1:
            raise ConfigError(f"width: {self.width} is below 1")
        return default if self.width is None else self.width

    def stem_of(self, known: tuple[str, ...]) -> str:
        """Return the stem, one of those known; the first if none is set."""
        if self.stem is not None and self.stem not in known:
            raise ConfigError(f"stem: {self.stem!r} is unknown; allowed: {', '.join(known)}")
        return self.stem or known[0]

    def no_stem(self, model: str) -> None:
        """Refuse a stem."""
        if self.stem is not None:
            raise ConfigError(
                f"stem: {self.stem!r} has no meaning for model {model}; only resnet18 and googlenet have one"
            )

    def _samples(self) -> str:
        return f"{'tokens' if self.tokens else 'samples'} of shape {self.shape}"


Builder = Callable[[ModelOptions], nn.Module]
MODELS: Final[Registry[Builder]] = Registry("model", group="adagq.models")


def build_model(
    name: str,
    shape: tuple[int, ...],
    classes: int,
    width: int | None = None,
    stem: str | None = None,
    tokens: bool = False,
) -> nn.Module:
    """Return a freshly drawn model from the registry.

    >>> sum(p.numel() for p in build_model("mlp", (1, 28, 28), 10).parameters())
    199210
    """
    return MODELS[name](ModelOptions(shape, classes, width, stem, tokens))
