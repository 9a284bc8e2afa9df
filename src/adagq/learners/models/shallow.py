"""cnn and mlp: FedAvg's two models (McMahan et al. 2017); linear; mlp_bn: a small one with BatchNorm."""

from math import prod

from torch import nn

from adagq.core.errors import ConfigError
from adagq.learners.models.registry import MODELS, ModelOptions


@MODELS.register("cnn")
def cnn(options: ModelOptions) -> nn.Module:
    """Return two pooled 5x5 convolutions (32, 64), then 512 hidden units: 1,663,370 parameters on 28x28 grey images."""
    options.no_stem("cnn")
    channels, height, width = options.image("cnn")
    if min(height, width) < 4:
        raise ConfigError(f"model cnn pools twice by 2: images of {height}x{width} are below 4x4")
    first = options.width_or(32)
    return nn.Sequential(
        nn.Conv2d(channels, first, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(first, 2 * first, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * first * (height // 4) * (width // 4), 16 * first),
        nn.ReLU(inplace=True),
        nn.Linear(16 * first, options.classes),
    )


@MODELS.register("linear")
def linear(options: ModelOptions) -> nn.Module:
    """Return softmax regression, one layer, for images and tables: 7,850 parameters on 28x28 grey images."""
    options.no_stem("linear")
    options.no_tokens("linear")
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(options.shape), options.classes))


@MODELS.register("mlp")
def mlp(options: ModelOptions) -> nn.Module:
    """Return "2NN", two hidden layers of 200 units, for images and tables: 199,210 parameters on 28x28 grey images."""
    options.no_stem("mlp")
    options.no_tokens("mlp")
    hidden = options.width_or(200)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(options.shape), hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, options.classes),
    )


@MODELS.register("mlp_bn")
def mlp_bn(options: ModelOptions) -> nn.Module:
    """Return one hidden layer of 100 units behind BatchNorm: the smallest model whose statistics travel."""
    options.no_stem("mlp_bn")
    options.no_tokens("mlp_bn")
    hidden = options.width_or(100)
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(options.shape), hidden),
        nn.BatchNorm1d(hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, options.classes),
    )
