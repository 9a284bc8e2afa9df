"""A model as Flower's arrays and as adagq's vectors."""

from collections.abc import Iterable, Mapping

from flwr.app import Array, ArrayRecord

from adagq.core.vectors import FloatVector, Layout


class Arrays:
    """The model as Flower's arrays and as one vector; arrays that nobody trains stay as they are."""

    def __init__(self, initial: ArrayRecord, buffers: Iterable[str] | None) -> None:
        self._state = {name: array.numpy() for name, array in initial.items()}
        self.layout = Layout.of(self._state, buffers)
        self.initial = self.layout.pack(self._state)
        self._tied: dict[str, str] = {}

    def flatten_as(self, layout: Layout, tied: Mapping[str, str]) -> None:
        """Take another layout, whose tensors are some of the arrays'; `tied`: further names of them."""
        here = {tensor.name: tensor.shape for tensor in layout.tensors}
        shapes = {name: array.shape for name, array in self._state.items()}
        self._tied = {other: name for other, name in tied.items() if shapes.get(other) == here.get(name, ())}
        self._tied = {other: name for other, name in self._tied.items() if other not in here and name in here}
        self.layout = layout
        self.initial = layout.pack({tensor.name: self._state[tensor.name] for tensor in layout.tensors})

    def record(self, vector: FloatVector, buffers: FloatVector) -> ArrayRecord:
        state = self._state | self.layout.unpack(vector, buffers)
        state |= {other: state[name] for other, name in self._tied.items()}
        return ArrayRecord({name: Array(array) for name, array in state.items()})
