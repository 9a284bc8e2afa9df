"""Checks that a copy of a data set is the published one, and puts its samples into the published order.

A sample's digest covers its pixels (uint8, channels first) and its label. Two things are compared with constants:

    content    SHA-256 over the sorted digests: the same samples with the same labels, in any order
    blocks     SHA-256 over the digests of each 10,000 samples: the original order

Runs draw their clients from positions, so the order matters: the same seed gives the same clients only where
the samples lie in the same order. Copies that hold the original batches in another order (the hub's CIFAR-10,
which follows the tar archive) are put right; samples in any other order are accepted, and said to be so.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from adagq.core.errors import DataError
from adagq.data.dataset import DataSet
from adagq.data.files import Array

BLOCK = 10_000


@dataclass(frozen=True)
class Part:
    """What the training or the test part of a data set is known by."""

    per_class: int
    content: str
    blocks: tuple[str, ...]

    @property
    def samples(self) -> int:
        """How many there are."""
        return BLOCK * len(self.blocks)


@dataclass(frozen=True)
class Published:
    """A data set as its authors published it."""

    labels: tuple[str, ...]
    train: Part
    test: Part


PUBLISHED = {
    "fashion-mnist": Published(
        (
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        Part(
            6_000,
            "fb88a2f5c1b590c907f860b47803d006e4fa7b276cdb551799af9d443accdff7",
            (
                "c783ea308fca8c28c84ac3e5c4e9a79d",
                "856455328306b3dbeca9a7d91d57df5e",
                "f59b6159dc3f0d8eba75b52ef4693dc5",
                "999fe0aa2eb75db42b5639c0b3078b4c",
                "84d5134e6e9aba1bfc5bc30523ec9fd6",
                "cd6a805836508be6d931ce409c2dd81a",
            ),
        ),
        Part(
            1_000,
            "0b381379398a0943a88bf3864ff3f5177903dcf178030b4b74c495294b38fa7c",
            ("3572a95caf68ef84b661aae12e418e90",),
        ),
    ),
    "cifar10": Published(
        ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
        Part(
            5_000,
            "fc36ff26702a9efdf08d3de274034c378032d3423bf7dd6c1022bebe6a7b810a",
            (
                "bb270f52e3e5317fa42412cba1c095c8",
                "8d2f030d9db558fef0015e716ded91eb",
                "01f91f07073391fea9197a6118d3c746",
                "1ed04aefb5a331b51d9415b3925c3ac8",
                "eec8f36412f5c4f47aa710d9d7489673",
            ),
        ),
        Part(
            1_000,
            "11be7cf3ed0bf1df2a473c0d4d3db6eafcac4518b49a5b4224077d754106b38d",
            ("bb0f723350dfc73b9410e24ede8acd9b",),
        ),
    ),
}


@dataclass(frozen=True, eq=False)
class Verified:
    """A copy that holds exactly the published samples."""

    data: DataSet
    in_order: bool  # the original order: runs are those of any other such copy, seed for seed


def verify(data: DataSet) -> Verified:
    """Return the data set in its original order where that can be found; raise `DataError` if it is another."""
    published = PUBLISHED[data.name]
    train = _order(data.name, "train", published.train, data.train_inputs, data.train_labels)
    test = _order(data.name, "test", published.test, data.test_inputs, data.test_labels)
    ordered = data
    if train is not None and not np.array_equal(train, np.arange(len(train))):
        ordered = replace(data, train_inputs=data.train_inputs[train], train_labels=data.train_labels[train])
    return Verified(ordered, train is not None and test is not None)


def _order(name: str, part: str, known: Part, images: Array, labels: Array) -> Array | None:
    """Return where each sample of the original order lies; None where the blocks are not the original ones."""
    if images.dtype != np.uint8:
        raise DataError(f"{name}: {part} images are {images.dtype}, the published ones are bytes (uint8)")
    if len(images) != known.samples:
        raise DataError(f"{name}: {len(images)} {part} images, the published set has {known.samples}")
    counts = np.bincount(labels, minlength=1)
    if set(counts.tolist()) != {known.per_class}:
        raise DataError(f"{name}: {part} labels per class are {counts.tolist()}, expected {known.per_class} of each")
    samples = [
        hashlib.sha256(np.ascontiguousarray(image).tobytes() + bytes([label])).digest()
        for image, label in zip(images, labels.tolist(), strict=True)
    ]
    content = hashlib.sha256(b"".join(sorted(samples))).hexdigest()
    if content != known.content:
        raise DataError(f"{name}: {part} pixels or labels are not the published ones (SHA-256 {content[:16]}…)")
    starts = {_block(samples, start): start for start in range(0, len(samples), BLOCK)}
    if set(starts) != set(known.blocks):
        return None
    return np.concatenate([np.arange(starts[block], starts[block] + BLOCK) for block in known.blocks])


def _block(samples: list[bytes], start: int) -> str:
    return hashlib.sha256(b"".join(samples[start : start + BLOCK])).hexdigest()[:32]
