"""Whether server and node flatten the model the same way, and where they differ if not."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from adagq.core.vectors import Layout

MOST_TENSORS: Final = 2000  # whose shapes travel: enough for a hint


def layout_digest(layout: Layout) -> str:
    """Return a name for shapes and order: server and node must flatten the model the same way."""
    trained = [tensor.shape for tensor in layout.tensors if not tensor.buffer]
    buffers = [tensor.shape for tensor in layout.tensors if tensor.buffer]
    return hashlib.sha256(repr((trained, buffers)).encode()).hexdigest()[:16]


def layout_text(layout: Layout) -> str:
    """Return names, shapes and roles as JSON, for the hint when two layouts differ."""
    return json.dumps([[t.name, list(t.shape), t.buffer] for t in layout.tensors[:MOST_TENSORS]])


def layout_within(ours: Layout, said: Mapping[str, Any]) -> Layout | None:
    """Return the node's layout if all of its tensors are among ours, in the same shapes; None if not."""
    here = {tensor.name: tensor for tensor in ours.tensors}
    tensors = []
    for name, (shape, buffer) in (_tensors(said) or {}).items():
        tensor = here.get(name)
        if tensor is None or tensor.shape != shape:
            return None
        tensors.append(replace(tensor, buffer=buffer))
    within = Layout(tuple(tensors))
    return within if within.elements and layout_digest(within) == said.get("layout") else None


def _tensors(said: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], bool]] | None:
    try:
        return {str(name): (tuple(shape), bool(buffer)) for name, shape, buffer in json.loads(str(said["tensors"]))}
    except (KeyError, ValueError, TypeError):
        return None


def tied_in(introductions: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the further names that most nodes' models have for a tensor: other name -> name."""
    said = Counter(str(introduction.get("tied", "{}")) for introduction in introductions).most_common(1)
    try:
        return {str(other): str(name) for other, name in json.loads(said[0][0]).items()} if said else {}
    except (ValueError, AttributeError):
        return {}


def layout_difference(ours: Layout, said: Mapping[str, Any]) -> str:
    """Return in words how a node's model differs from the server's: the first tensor that does, and what to do."""
    counts = f"its model has {said.get('elements')} parameters, the initial arrays {ours.elements}"
    theirs = _tensors(said)
    if theirs is None:
        return f"{counts}, in another layout"
    here = {tensor.name: (tensor.shape, tensor.buffer) for tensor in ours.tensors}
    for name, (shape, _) in theirs.items():  # what cannot be made to fit comes first
        if name in here and here[name][0] != shape:
            return f"{counts}; {name!r} is {list(here[name][0])} here and {list(shape)} there"
    extra = next((name for name in theirs if name not in here), None)
    if extra is not None:
        return f"{counts}; {extra!r} is not among the initial arrays"
    for name, (shape, buffer) in here.items():
        if name not in theirs:
            hint = "frozen at the node? Pass `initial_arrays` without it, or let the node train it"
            return f"{counts}; {name!r} {list(shape)} is not trained or kept there ({hint})"
        if theirs[name] != (shape, buffer):
            role, other = ("a buffer" if flag else "trained" for flag in (buffer, theirs[name][1]))
            return f"{counts}; {name!r} is {list(shape)}, {role} here and {list(theirs[name][0])}, {other} there"
    return f"{counts}; the same tensors in another order: build the model the same way at both ends"
