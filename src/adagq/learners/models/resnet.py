"""resnet18: ResNet-18 for small images (He et al. 2016)."""

import torch
from torch import Tensor, nn

from adagq.learners.models.layers import conv, conv_bn_relu, initialise
from adagq.learners.models.registry import MODELS, ModelOptions


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut (He et al. 2016, figure 2)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *conv_bn_relu(inputs, outputs, 3, stride), conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.body(x) + self.shortcut(x))


class ResNet18(nn.Module):
    """Four stages of two residual blocks, widths 1, 2, 4, 8 times `width`."""

    def __init__(self, channels: int, classes: int, width: int, stem: str) -> None:
        super().__init__()
        if stem == "cifar":
            self.stem = nn.Sequential(*conv_bn_relu(channels, width, 3))
        elif stem == "stride2":
            self.stem = nn.Sequential(*conv_bn_relu(channels, width, 3, 2))
        else:
            self.stem = nn.Sequential(*conv_bn_relu(channels, width, 7, 2), nn.MaxPool2d(3, 2, padding=1))
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
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return scores


@MODELS.register("resnet18")
def resnet18(options: ModelOptions) -> nn.Module:
    """Return a ResNet-18: 11,173,962 parameters at width 64 on 32x32 colour images."""
    stem = options.stem_of(("cifar", "imagenet", "stride2"))
    return ResNet18(options.image("resnet18")[0], options.classes, options.width_or(64), stem)
