"""A model as Flower's arrays and as adagq's vectors."""

from collections.abc import Iterable

from flwr.app import Array, ArrayRecord

from adagq.core.vectors import FloatVector, Layout


class Arrays:
    """The model as Flower's arrays and as one vector; arrays that nobody trains stay as they are."""

    def __init__(self, initial: ArrayRecord, buffers: Iterable[str] | None) -> None:
        self._state = {name: array.numpy() for name, array in initial.items()}
        self.layout = Layout.of(self._state, buffers)
        self.initial = self.layout.pack(self._state)

    def flatten_as(self, layout: Layout) -> None:
        """Take another layout, whose tensors are some of the arrays'."""
        self.layout = layout
        self.initial = layout.pack({tensor.name: self._state[tensor.name] for tensor in layout.tensors})

    def record(self, vector: FloatVector, buffers: FloatVector) -> ArrayRecord:
        state = self._state | self.layout.unpack(vector, buffers)
        return ArrayRecord({name: Array(array) for name, array in state.items()})
