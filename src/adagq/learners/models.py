"""The models of the papers, for small images: ResNet-18, GoogLeNet, FedAvg's CNN and an MLP.

    model = MODELS["resnet18"]((3, 32, 32), classes=10, width=64, stem="cifar")      # 11,173,962 parameters

A builder takes the image shape (channels, height, width), the number of classes, and two optional sizes:

`width`  channels after the first convolution (resnet18 and googlenet 64, cnn 32) or hidden units (mlp 200);
         everything behind it scales along, so ResNet-18 of width 16 has a sixteenth of the parameters
`stem`   "cifar" (one 3x3 convolution, stride 1: the 32x32 form) or "imagenet" (7x7, stride 2, and a max-pool:
         a sixteenth of the work per sample); only resnet18 and googlenet have one

Weights are drawn from torch's global generator: seed it first.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from adagq.errors import ConfigError

Shape: TypeAlias = tuple[int, int, int]
Builder: TypeAlias = Callable[[Shape, int, int | None, str | None], nn.Module]

STEMS = ("cifar", "imagenet")


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    # No bias: the BatchNorm behind every convolution has one.
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def _conv_bn_relu(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [_conv(inputs, outputs, kernel, stride), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def _initialise(model: nn.Module) -> None:
    """Draw convolutions as He et al. do (fan-out, ReLU); all else keeps torch's defaults."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al. 2016, figure 2)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_conv_bn_relu(inputs, outputs, 3, stride), _conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.body(x) + self.shortcut(x))


class ResNet18(nn.Module):
    """Four stages of two residual blocks, widths 1, 2, 4, 8 times `width`."""

    def __init__(self, channels: int, classes: int, width: int, stem: str) -> None:
        super().__init__()
        if stem == "cifar":
            self.stem = nn.Sequential(*_conv_bn_relu(channels, width, 3))
        else:
            self.stem = nn.Sequential(*_conv_bn_relu(channels, width, 7, 2), nn.MaxPool2d(3, 2, padding=1))
        blocks: list[nn.Module] = []
        inputs = width
        for stage in range(4):
            outputs = width << stage
            blocks += [
                ResidualBlock(inputs, outputs, 1 if stage == 0 else 2),
                ResidualBlock(outputs, outputs, 1),
            ]
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)
        _initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return scores


class Inception(nn.Module):
    """Four branches side by side: 1x1, 3x3, two 3x3 in place of a 5x5, pooled 1x1 (Szegedy et al. 2015)."""

    def __init__(self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int) -> None:
        super().__init__()
        self.one = nn.Sequential(*_conv_bn_relu(inputs, one, 1))
        self.three = nn.Sequential(*_conv_bn_relu(inputs, three[0], 1), *_conv_bn_relu(three[0], three[1], 3))
        self.five = nn.Sequential(
            *_conv_bn_relu(inputs, five[0], 1),
            *_conv_bn_relu(five[0], five[1], 3),
            *_conv_bn_relu(five[1], five[1], 3),
        )
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), *_conv_bn_relu(inputs, pool, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)


# 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool projection (Szegedy et al. 2015, table 1). None: max-pool.
INCEPTIONS: tuple[tuple[int, int, int, int, int, int] | None, ...] = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    None,
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    None,
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)


class GoogLeNet(nn.Module):
    """Nine inception modules with BatchNorm, no auxiliary heads; every channel count scales by width/64."""

    def __init__(self, channels: int, classes: int, width: int, stem: str) -> None:
        super().__init__()

        def scaled(count: int) -> int:
            return max(1, count * width // 64)

        if stem == "cifar":
            layers = _conv_bn_relu(channels, scaled(192), 3)
        else:
            layers = [
                *_conv_bn_relu(channels, width, 7, 2),
                nn.MaxPool2d(3, 2, padding=1),
                *_conv_bn_relu(width, width, 1),
                *_conv_bn_relu(width, scaled(192), 3),
                nn.MaxPool2d(3, 2, padding=1),
            ]
        inputs = scaled(192)
        for row in INCEPTIONS:
            if row is None:
                layers.append(nn.MaxPool2d(3, 2, padding=1))
                continue
            one, reduce_three, three, reduce_five, five, pool = map(scaled, row)
            layers.append(Inception(inputs, one, (reduce_three, three), (reduce_five, five), pool))
            inputs = one + three + five + pool
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)
        _initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(x).mean((2, 3)))
        return scores


def resnet18(shape: Shape, classes: int, width: int | None = None, stem: str | None = None) -> nn.Module:
    return ResNet18(shape[0], classes, _width(width, 64), _stem(stem))


def googlenet(shape: Shape, classes: int, width: int | None = None, stem: str | None = None) -> nn.Module:
    return GoogLeNet(shape[0], classes, _width(width, 64), _stem(stem))


def cnn(shape: Shape, classes: int, width: int | None = None, stem: str | None = None) -> nn.Module:
    """FedAvg's CNN (McMahan et al. 2017): two pooled 5x5 convolutions (32, 64), then 512 hidden units.

    On 28x28 grey images it has their 1,663,370 parameters.
    """
    _no_stem("cnn", stem)
    channels, height, width_pixels = shape
    if min(height, width_pixels) < 4:
        raise ConfigError(f"model cnn pools twice by 2: images of {height}x{width_pixels} are below 4x4")
    first = _width(width, 32)
    return nn.Sequential(
        nn.Conv2d(channels, first, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(first, 2 * first, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * first * (height // 4) * (width_pixels // 4), 16 * first),
        nn.ReLU(inplace=True),
        nn.Linear(16 * first, classes),
    )


def mlp(shape: Shape, classes: int, width: int | None = None, stem: str | None = None) -> nn.Module:
    """FedAvg's "2NN": two hidden layers of 200 units (199,210 parameters on 28x28 grey images)."""
    _no_stem("mlp", stem)
    hidden = _width(width, 200)
    channels, height, width_pixels = shape
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * width_pixels, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, classes),
    )


MODELS: dict[str, Builder] = {"resnet18": resnet18, "googlenet": googlenet, "cnn": cnn, "mlp": mlp}


def build_model(name: str, shape: Shape, classes: int, width: int | None = None, stem: str | None = None) -> nn.Module:
    """Return a freshly drawn model from the table.

    >>> sum(p.numel() for p in build_model("mlp", (1, 28, 28), 10).parameters())
    199210
    """
    if name not in MODELS:
        raise ConfigError(f"model: {name!r} is unknown; allowed: {', '.join(MODELS)}")
    return MODELS[name](shape, classes, width, stem)


def _width(width: int | None, default: int) -> int:
    if width is not None and width < 1:
        raise ConfigError(f"width: {width} is below 1")
    return default if width is None else width


def _stem(stem: str | None) -> str:
    if stem is not None and stem not in STEMS:
        raise ConfigError(f"stem: {stem!r} is unknown; allowed: {', '.join(STEMS)}")
    return stem or "cifar"


def _no_stem(model: str, stem: str | None) -> None:
    if stem is not None:
        raise ConfigError(f"stem: {stem!r} has no meaning for model {model}; only resnet18 and googlenet have one")
