"""A module whose parameters are views into one vector, so that loading and dumping a model is one copy.

The vector holds every trained parameter in the module's own order (`travelling` has the rule); a module with
parameters of several types has one vector for each type. Float32 buffers (BatchNorm statistics) are views into a
vector of their own. What leaves the module is float32, in any precision that it computes in.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adagq.core.errors import LayoutError
from adagq.core.vectors import FloatVector
from adagq.learners.travelling import layout_of, stored_buffers, trained_parameters


@dataclass(frozen=True, eq=False)
class Group:
    """All parameters of one type: two vectors, and where their pieces lie in the vector that travels."""

    vector: Tensor
    gradient: Tensor
    pieces: tuple[tuple[slice, slice], ...]  # (in `vector`, in the vector that travels)
    gradients: dict[str, Tensor]  # views into `gradient`, by parameter


class FlatModule:
    """Rebinds `module`'s parameters and buffers, in place, to flat vectors; the module works as before.

    >>> flat = FlatModule(nn.Linear(3, 2))
    >>> vector, buffers = flat.dump()
    >>> vector.size, buffers.size
    (8, 0)
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.layout = layout_of(module)
        self._parameters = trained_parameters(module)
        first = next(iter(self._parameters.values()))
        self.device, self.dtype = first.device, first.dtype
        self._bound: list[tuple[Tensor, Tensor]] = []  # (tensor of the module, its place in a vector)
        self._copied: list[tuple[Tensor, Tensor]] = []
        self.groups = [self._group(dtype) for dtype in dict.fromkeys(p.dtype for p in self._parameters.values())]
        buffers = stored_buffers(module)
        self._buffers = torch.empty(self.layout.buffer_elements, device=self.device)
        for name, view in _views(self._buffers, buffers).items():
            if buffers[name].dtype is torch.float32:
                self._bind(buffers[name], view)
            else:
                self._copied.append((buffers[name], view))  # counters: another type cannot be a view

    def __reduce__(self) -> Any:
        # Pickling would give every view its own storage: the receiver binds them anew.
        return FlatModule, (self.module,)

    def _group(self, dtype: torch.dtype) -> Group:
        """Bind the parameters of one type to a vector."""
        members = {name: p for name, p in self._parameters.items() if p.dtype is dtype}
        vector = torch.empty(sum(p.numel() for p in members.values()), device=self.device, dtype=dtype)
        gradient = torch.zeros_like(vector)
        for name, view in _views(vector, members).items():
            self._bind(members[name], view)
        return Group(vector, gradient, tuple(self._pieces(members)), _views(gradient, members))

    def _pieces(self, members: Mapping[str, Tensor]) -> Iterator[tuple[slice, slice]]:
        """Yield where the members lie in their own vector and in the whole one; neighbours are one piece."""
        own = whole = 0
        begun: tuple[int, int] | None = None
        for name, parameter in self._parameters.items():
            if name in members and begun is None:
                begun = own, whole
            elif name not in members and begun is not None:
                yield slice(begun[0], own), slice(begun[1], whole)
                begun = None
            own += parameter.numel() if name in members else 0
            whole += parameter.numel()
        if begun is not None:
            yield slice(begun[0], own), slice(begun[1], whole)

    def _bind(self, tensor: Tensor, view: Tensor) -> None:
        view.copy_(tensor.detach())
        tensor.data = view
        self._bound.append((tensor, view))

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        """Set the module to these parameters and buffers."""
        self._check_bound()
        wanted = (("vector", vector, self.layout.elements), ("buffers", buffers, self.layout.buffer_elements))
        for what, array, elements in wanted:
            if array.shape != (elements,):
                raise LayoutError(f"{what}: shape {array.shape}, the model needs ({elements},)")
        parameters, stored = (torch.from_numpy(np.require(a, np.float32, ["C", "W"])) for a in (vector, buffers))
        for group in self.groups:
            for own, whole in group.pieces:
                group.vector[own].copy_(parameters[whole])
        self._buffers.copy_(stored)
        for tensor, view in self._copied:
            tensor.copy_(view if tensor.is_floating_point() else view.round())

    def dump(self) -> tuple[FloatVector, FloatVector]:
        """Return copies of the module's parameters and buffers."""
        self._check_bound()
        for tensor, view in self._copied:
            view.copy_(tensor)
        vector = torch.empty(self.layout.elements)
        for group in self.groups:
            for own, whole in group.pieces:
                vector[whole].copy_(group.vector[own])
        return vector.numpy(), self._buffers.cpu().numpy().copy()

    def accept(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return a batch on the module's device; inputs that are floating point have its type."""
        inputs = inputs.to(self.device, self.dtype) if inputs.is_floating_point() else inputs.to(self.device)
        return inputs, targets.to(self.device)

    def bind_gradients(self) -> list[Group]:
        """Point every parameter's `.grad` into its group's vector and return the groups: backward adds up there."""
        self._check_bound()
        for group in self.groups:
            for name, view in group.gradients.items():
                self._parameters[name].grad = view
        return self.groups

    def _check_bound(self) -> None:
        if any(tensor.data_ptr() != view.data_ptr() for tensor, view in self._bound):
            raise LayoutError("the module was moved, cast or wrapped again since it was wrapped: wrap it once, last")


def _views(vector: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    pieces = torch.split(vector, [tensor.numel() for tensor in tensors.values()])
    return {name: piece.view(tensors[name].shape) for name, piece in zip(tensors, pieces, strict=True)}
