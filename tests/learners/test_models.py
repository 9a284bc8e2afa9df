"""Parameter counts are the published ones, and every model takes every image size."""

import pytest
import torch
from torch import nn

from adagq.core.errors import ConfigError
from adagq.learners.models import MODELS, build_model


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "shape", "width", "stem", "expected"),
    [
        ("resnet18", (3, 32, 32), None, None, 11_173_962),
        ("resnet18", (1, 28, 28), None, None, 11_172_810),
        ("resnet18", (3, 32, 32), 16, "cifar", 701_466),
        ("resnet18", (1, 28, 28), 16, "imagenet", 701_818),
        ("googlenet", (3, 32, 32), None, None, 6_158_346),
        ("googlenet", (3, 32, 32), 16, None, 390_762),
        ("resnet18", (3, 32, 32), 16, "stride2", 701_466),
        ("cnn", (1, 28, 28), None, None, 1_663_370),
        ("mlp", (1, 28, 28), None, None, 199_210),
    ],
)
def test_parameter_counts(name, shape, width, stem, expected):
    assert parameters(build_model(name, shape, 10, width, stem)) == expected


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)], ids=str)
@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("resnet18", "cifar"),
        ("resnet18", "imagenet"),
        ("resnet18", "stride2"),
        ("googlenet", "cifar"),
        ("googlenet", "imagenet"),
    ],
)
def test_small_deep_models_train_on_any_image_size(name, stem, shape):
    model = build_model(name, shape, 7, 8, stem).train()
    scores = model(torch.randn(3, *shape))
    assert scores.shape == (3, 7)
    scores.sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 5, 9)], ids=str)
@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_shallow_models_take_any_image_size(name, shape):
    assert build_model(name, shape, 4, 8)(torch.randn(2, *shape)).shape == (2, 4)


def test_every_convolution_of_the_deep_models_is_followed_by_batchnorm():
    for name in ("resnet18", "googlenet"):
        modules = list(build_model(name, (3, 32, 32), 10, 8).modules())
        convolutions = sum(isinstance(m, nn.Conv2d) for m in modules)
        assert convolutions == sum(isinstance(m, nn.BatchNorm2d) for m in modules) > 15


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("resnet19", (1, 8, 8), 10),
            "unknown model 'resnet19': did you mean 'resnet18'\\? Known: resnet18, googlenet, cnn, linear, mlp",
        ),
        (("resnet18", (1, 8, 8), 10, 0), "width: 0 is below 1"),
        (("resnet18", (1, 8, 8), 10, 8, "vgg"), "stem: 'vgg' is unknown; allowed: cifar, imagenet"),
        (("mlp", (1, 8, 8), 10, None, "cifar"), "no meaning for model mlp"),
        (("cnn", (1, 3, 3), 10), "below 4x4"),
        (("googlenet", (1, 8, 8), 10, 8, "stride2"), "stem: 'stride2' is unknown; allowed: cifar, imagenet"),
        (("resnet18", (13,), 3), "model resnet18 takes images .* not samples of shape \\(13,\\); tables take mlp"),
        (("mlp", (32,), 30, None, None, True), "model mlp takes images and tables, not tokens of shape"),
        (("lstm", (13,), 3), "model lstm reads tokens"),
        (("lstm", (32,), 30, None, "cifar", True), "no meaning for model lstm"),
    ],
)
def test_impossible_models_are_named(arguments, words):
    with pytest.raises(ConfigError, match=words):
        build_model(*arguments)


def test_the_lstm_scores_every_token_from_the_ones_before_it():
    model = build_model("lstm", (12,), 30, 16, tokens=True).eval()
    tokens = torch.arange(24).view(2, 12)
    scores = model(tokens)
    assert scores.shape == (2, 30, 12)
    tokens[:, 7] = 0
    changed = model(tokens)
    assert torch.equal(scores[:, :, :7], changed[:, :, :7])
    assert not torch.equal(scores[:, :, 7:], changed[:, :, 7:])


def test_a_stride_of_two_halves_both_sides_and_pools_nothing():
    stem = build_model("resnet18", (3, 32, 32), 10, 8, "stride2").stem
    assert stem(torch.randn(2, 3, 32, 32)).shape == (2, 8, 16, 16)


def test_the_table_names_its_builders():
    ours = {name: builder for name, builder in MODELS.items() if builder.__module__.startswith("adagq.")}  # not plugins
    assert {name: builder.__name__ for name, builder in ours.items()} == {name: name for name in ours}
