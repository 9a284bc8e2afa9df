"""Layers that the convolutional models share."""

from torch import nn


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """Return a convolution that keeps the size, or halves it with stride 2."""
    # No bias: the BatchNorm behind every convolution has one.
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


def conv_bn_relu(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """Return convolution, BatchNorm and ReLU."""
    return [conv(inputs, outputs, kernel, stride), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def initialise(model: nn.Module) -> None:
    """Draw convolutions as He et al. do (fan-out, ReLU); all else keeps torch's defaults."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
