"""Named tensors <-> one float32 vector, plus the buffers that are not gradients.

    layout = Layout.of(model.state_dict())           # torch tensors or NumPy arrays
    vector, buffers = layout.pack(model.state_dict())
    model.load_state_dict(layout.unpack(vector, buffers, like=model.state_dict()))

Trainable parameters go into `vector` in the order of the mapping; BatchNorm statistics (and anything that is not
floating point) go into `buffers`, which travel uncompressed. Torch is never imported here: a tensor is whatever
has `.detach()` and `.numpy()`, or is an array.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adagq.core.errors import LayoutError

FloatVector = NDArray[np.float32]

BUFFER_SUFFIXES = ("running_mean", "running_var", "num_batches_tracked")


def _array(tensor: Any) -> NDArray[Any]:
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().numpy()
    return np.asarray(tensor)


@dataclass(frozen=True)
class Tensor:
    """Name, shape and dtype of one entry; `buffer` says which of the two vectors holds it."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    buffer: bool

    @property
    def size(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """The fixed order in which named tensors become one vector.

    >>> layout = Layout.of({"w": np.ones((2, 3), np.float32), "bn.running_mean": np.zeros(3, np.float32)})
    >>> layout.sizes, layout.elements, layout.buffer_elements
    ((6,), 6, 3)
    """

    tensors: tuple[Tensor, ...]

    @classmethod
    def of(cls, state: Mapping[str, Any], buffers: Iterable[str] | None = None) -> "Layout":
        """Read the layout off a mapping of tensors; `buffers` names the entries that are not trained."""
        named = None if buffers is None else frozenset(buffers)
        if named is not None and (unknown := named - set(state)):
            raise LayoutError(f"buffers not in the mapping: {', '.join(sorted(unknown))}")
        tensors = []
        for name, value in state.items():
            if hasattr(value, "detach"):  # torch's: what it holds may lie on another device, and stays there
                dtype = np.dtype(str(value.dtype).removeprefix("torch."))
            else:
                value = _array(value)
                dtype = value.dtype
            buffer = name.endswith(BUFFER_SUFFIXES) if named is None else name in named
            tensors.append(
                Tensor(name, tuple(value.shape), dtype.name, buffer or not np.issubdtype(dtype, np.floating))
            )
        return cls(tuple(tensors))

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> "Layout":
        """Return a layout of plain one-dimensional tensors, for vectors that never were a model."""
        return cls(tuple(Tensor(f"t{i}", (int(n),), "float32", False) for i, n in enumerate(sizes)))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the trainable tensors, in vector order."""
        return tuple(t.size for t in self.tensors if not t.buffer)

    @cached_property
    def variances(self) -> NDArray[np.bool_]:
        """Which buffer elements are variances, known by BatchNorm's names."""
        marks = [np.full(t.size, t.name.endswith("running_var")) for t in self.tensors if t.buffer]
        return np.concatenate(marks) if marks else np.zeros(0, np.bool_)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the trainable tensors, in vector order."""
        return tuple(t.shape for t in self.tensors if not t.buffer)

    @cached_property
    def elements(self) -> int:
        return sum(self.sizes)

    @cached_property
    def buffer_elements(self) -> int:
        return sum(t.size for t in self.tensors if t.buffer)

    def pack(self, state: Mapping[str, Any]) -> tuple[FloatVector, FloatVector]:
        """Return (vector, buffers) of `state`, which must have exactly the layout's names and shapes."""
        if missing := [t.name for t in self.tensors if t.name not in state]:
            raise LayoutError(f"missing tensors: {', '.join(missing[:5])}")
        if extra := sorted(set(state) - {t.name for t in self.tensors}):
            raise LayoutError(f"tensors not in the layout: {', '.join(extra[:5])}")
        vector = np.empty(self.elements, np.float32)
        buffers = np.empty(self.buffer_elements, np.float32)
        position = {False: 0, True: 0}
        for tensor in self.tensors:
            array = _array(state[tensor.name])
            if tuple(array.shape) != tensor.shape:
                raise LayoutError(f"{tensor.name}: shape {tuple(array.shape)}, the layout has {tensor.shape}")
            out, start = (buffers if tensor.buffer else vector), position[tensor.buffer]
            out[start : start + tensor.size] = array.reshape(-1)
            position[tensor.buffer] = start + tensor.size
        return vector, buffers

    def unpack(
        self,
        vector: NDArray[Any],
        buffers: NDArray[Any] | None = None,
        like: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the named tensors; with `like` (a mapping of torch tensors) as torch tensors of its kind.

        Arrays are views into `vector` where the dtype allows it.
        """
        buffers = np.zeros(0, np.float32) if buffers is None else buffers
        for what, array, expected in (
            ("vector", vector, self.elements),
            ("buffers", buffers, self.buffer_elements),
        ):
            if array.ndim != 1 or array.size != expected:
                raise LayoutError(f"{what}: shape {array.shape}, the layout needs ({expected},)")
        state: dict[str, Any] = {}
        position = {False: 0, True: 0}
        for tensor in self.tensors:
            source, start = (buffers if tensor.buffer else vector), position[tensor.buffer]
            piece = source[start : start + tensor.size].reshape(tensor.shape)
            position[tensor.buffer] = start + tensor.size
            dtype = np.dtype(tensor.dtype)
            if not np.issubdtype(dtype, np.floating):
                piece = np.asarray(np.rint(piece))  # of a counter, which has no axes, it is no array
            state[tensor.name] = piece.astype(dtype, copy=False)
        if like is not None:
            state = {name: _like(like, name, array) for name, array in state.items()}
        return state


def _like(like: Mapping[str, Any], name: str, array: NDArray[Any]) -> Any:
    if name not in like:
        raise LayoutError(f"`like` has no tensor {name}")
    reference = like[name]
    if not hasattr(reference, "new_tensor"):
        return array
    make: Callable[[NDArray[Any]], Any] = reference.new_tensor
    return make(array)


def squared_norm(vector: FloatVector) -> float:
    """Return ||vector||² (a plain float; NaN if the vector holds one)."""
    return float(np.dot(vector, vector))
