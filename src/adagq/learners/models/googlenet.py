"""googlenet: GoogLeNet with BatchNorm for small images (Szegedy et al. 2015)."""

import torch
from torch import Tensor, nn

from adagq.learners.models.layers import conv_bn_relu, initialise
from adagq.learners.models.registry import MODELS, ModelOptions


class Inception(nn.Module):
    """Four branches side by side: 1x1, 3x3, two 3x3 in place of a 5x5, pooled 1x1 (Szegedy et al. 2015)."""

    def __init__(self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int) -> None:
        super().__init__()
        self.one = nn.Sequential(*conv_bn_relu(inputs, one, 1))
        self.three = nn.Sequential(*conv_bn_relu(inputs, three[0], 1), *conv_bn_relu(three[0], three[1], 3))
        self.five = nn.Sequential(
            *conv_bn_relu(inputs, five[0], 1),
            *conv_bn_relu(five[0], five[1], 3),
            *conv_bn_relu(five[1], five[1], 3),
        )
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), *conv_bn_relu(inputs, pool, 1))

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
            layers = conv_bn_relu(channels, scaled(192), 3)
        else:
            layers = [
                *conv_bn_relu(channels, width, 7, 2),
                nn.MaxPool2d(3, 2, padding=1),
                *conv_bn_relu(width, width, 1),
                *conv_bn_relu(width, scaled(192), 3),
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
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(x).mean((2, 3)))
        return scores


@MODELS.register("googlenet")
def googlenet(options: ModelOptions) -> nn.Module:
    """Return a GoogLeNet: 6,158,346 parameters at width 64 on 32x32 colour images."""
    stem = options.stem_of(("cifar", "imagenet"))
    return GoogLeNet(options.image("googlenet")[0], options.classes, options.width_or(64), stem)
