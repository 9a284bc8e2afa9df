"""A client's samples: rows of tensors that all clients share, normalised batch by batch."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from adagq.core.errors import DataError

FEWEST = 3  # samples of a batch: BatchNorm needs more than one


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs and targets, or the rows `index` of them; `mean` and `deviation` are taken out batch by batch.

    Clients share the tensors: a client costs its index. Bytes stay bytes until their batch is needed.
    """

    inputs: Tensor
    targets: Tensor
    index: Tensor
    mean: Tensor | None = None
    deviation: Tensor | None = None
    channels_last: bool = False  # memory format of image batches; convolutions follow it

    @classmethod
    def normalised(
        cls, inputs: Any, targets: Any, normalisation: tuple[Any, Any] | None, channels_last: bool = False
    ) -> "Samples":
        """Return all samples of arrays; `normalisation` is mean and deviation of each channel or feature."""
        inputs, targets = torch.from_numpy(inputs), torch.from_numpy(targets)
        channels_last = channels_last and inputs.ndim == 4
        index = torch.arange(len(targets))
        if normalisation is None:
            return cls(inputs, targets, index, channels_last=channels_last)
        over = (-1, *(1,) * (inputs.ndim - 2))
        mean, deviation = (torch.from_numpy(part).view(over) for part in normalisation)
        return cls(inputs, targets, index, mean, deviation, channels_last)

    @classmethod
    def of(cls, data: Any) -> "Samples":
        """Accept a pair of arrays or tensors, or any sized data set that yields (input, target) pairs."""
        if isinstance(data, Samples):
            return data
        if not (isinstance(data, tuple | list) and len(data) == 2 and hasattr(data[0], "shape")):
            data = torch.utils.data.default_collate([data[i] for i in range(len(data))])
        inputs, targets = (torch.as_tensor(part) for part in data)
        if len(inputs) != len(targets):
            raise DataError(f"{len(inputs)} inputs, {len(targets)} targets")
        return cls(inputs, targets, torch.arange(len(targets)))

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: Any) -> "Samples":
        """Return some of the samples, sharing the tensors."""
        return replace(self, index=self.index[torch.as_tensor(rows)])

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets at `rows`, which come from `index`."""
        inputs = self.inputs.index_select(0, rows)
        if inputs.dtype is torch.uint8:
            inputs = inputs.float()
        if self.mean is not None and self.deviation is not None:
            inputs = inputs.sub_(self.mean).div_(self.deviation)
        if self.channels_last:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return inputs, self.targets.index_select(0, rows)


def batches(rows: Tensor, batch_size: int, share: float = 1.0) -> list[Tensor]:
    """Cut one epoch's rows into batches, without a last one that is too small.

    Of a part of an epoch the first rows count, in batches of about the batch size that are as large as each other.

    A few samples through BatchNorm have no variance worth the name and wreck the running statistics, so a
    last batch below a quarter of the batch size (or below FEWEST) is dropped, unless it is the only one.
    """
    if share < 1.0:
        rows = rows[: max(round(share * len(rows)), FEWEST)]
        return list(torch.tensor_split(rows, max(round(len(rows) / batch_size), 1)))
    parts = list(torch.split(rows, batch_size))
    if len(parts) > 1 and len(parts[-1]) < min(batch_size, max(FEWEST, batch_size // 4)):
        parts.pop()
    return parts
