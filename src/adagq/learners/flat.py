"""A module whose parameters are views into one vector, so that loading and dumping a model is one copy.

The vector holds every trainable parameter in the module's own order; float32 buffers (BatchNorm statistics)
are views into a second vector. Parameters that do not require gradients stay in the module and never travel.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adagq.errors import LayoutError
from adagq.vectors import FloatVector, Layout


class FlatModule:
    """Rebinds `module`'s parameters and buffers, in place, to two flat vectors; the module works as before.

    >>> flat = FlatModule(nn.Linear(3, 2))
    >>> vector, buffers = flat.dump()
    >>> vector.size, buffers.size
    (8, 0)
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        stored = module.state_dict().keys()
        self._parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        # Buffers outside the state dict are scratch space, not part of the model.
        buffers = {name: b for name, b in module.named_buffers() if name in stored}
        if not self._parameters:
            raise LayoutError("the module has no trainable parameters")
        for name, parameter in self._parameters.items():
            if parameter.dtype is not torch.float32:
                raise LayoutError(f"{name}: parameters must be float32, this one is {parameter.dtype}")
        self.layout = Layout.of({**self._parameters, **buffers}, buffers=buffers)
        self.device = next(iter(self._parameters.values())).device
        self.vector = torch.empty(self.layout.elements, device=self.device)
        self.gradient = torch.zeros_like(self.vector)
        self._buffers = torch.empty(self.layout.buffer_elements, device=self.device)
        self._gradients = _views(self.gradient, self._parameters)
        self._bound: list[tuple[Tensor, Tensor]] = []  # (tensor of the module, its place in a vector)
        self._copied: list[tuple[Tensor, Tensor]] = []
        for name, view in _views(self.vector, self._parameters).items():
            self._bind(self._parameters[name], view)
        for name, view in _views(self._buffers, buffers).items():
            if buffers[name].dtype is torch.float32:
                self._bind(buffers[name], view)
            else:
                self._copied.append((buffers[name], view))  # counters: another type cannot be a view

    def __reduce__(self) -> Any:
        # Pickling would give every view its own storage: the receiver binds them anew.
        return FlatModule, (self.module,)

    def _bind(self, tensor: Tensor, view: Tensor) -> None:
        view.copy_(tensor.detach())
        tensor.data = view
        self._bound.append((tensor, view))

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        """Set the module to these parameters and buffers."""
        self._check_bound()
        for what, target, array in (("vector", self.vector, vector), ("buffers", self._buffers, buffers)):
            if array.shape != tuple(target.shape):
                raise LayoutError(f"{what}: shape {array.shape}, the model needs ({target.numel()},)")
            target.copy_(torch.from_numpy(np.require(array, np.float32, ["C", "W"])))
        for tensor, view in self._copied:
            tensor.copy_(view if tensor.is_floating_point() else view.round())

    def dump(self) -> tuple[FloatVector, FloatVector]:
        """Return copies of the module's parameters and buffers."""
        self._check_bound()
        for tensor, view in self._copied:
            view.copy_(tensor)
        return self.vector.cpu().numpy().copy(), self._buffers.cpu().numpy().copy()

    def bind_gradients(self) -> Tensor:
        """Point every parameter's `.grad` into one vector and return it: backward adds up there."""
        self._check_bound()
        for name, parameter in self._parameters.items():
            parameter.grad = self._gradients[name]
        return self.gradient

    def _check_bound(self) -> None:
        if any(tensor.data_ptr() != view.data_ptr() for tensor, view in self._bound):
            raise LayoutError("the module was moved, cast or wrapped again since it was wrapped: wrap it once, last")


def _views(vector: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    pieces = torch.split(vector, [tensor.numel() for tensor in tensors.values()])
    return {name: piece.view(tensors[name].shape) for name, piece in zip(tensors, pieces, strict=True)}
