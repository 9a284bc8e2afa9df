"""The mean of the clients' buffers (BatchNorm statistics), which no single client can spoil.

A variance below zero, or a payload of another size, is refused. Numbers far from what most clients have are cut: the
limit is `SPREAD` times the median distance from the median, entry by entry, or that of its tensor where it is larger.
Buffers are small, so they are held until the round closes; of more than `HELD` clients the first say what is usual.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from adagq.codecs import decode, decode_into
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector, Layout

SPREAD = 20.0  # times the median distance: what an honest client is hardly ever away from the median
LEAST_SPREAD = 1e-3  # of the median's size: numbers that agree to so much are not cut
HELD = 1000
FEW = 3  # of fewer clients nobody is an outlier


def checked_buffers(payload: bytes, layout: Layout) -> FloatVector:
    """Return a client's buffers; `PayloadError` if they are of another size or cannot be."""
    size = layout.buffer_elements
    if not payload:
        if size:
            raise PayloadError(f"no buffers, {size} are needed")
        return np.zeros(0, np.float32)
    buffers = decode(payload, size, max_bytes=4 * size + 256)
    if buffers.size != size:
        raise PayloadError(f"payload holds {buffers.size} elements, {size} are expected")
    if size and (buffers[layout.variances] < 0).any():
        raise PayloadError(f"a variance of {float(buffers[layout.variances].min()):.4g}: must be >= 0")
    with np.errstate(over="ignore"):
        if not np.isfinite(np.dot(buffers, buffers)):
            raise PayloadError("buffers too large for float32")
    return buffers


def mean_buffers(payloads: Sequence[tuple[int, bytes]], layout: Layout) -> tuple[FloatVector, list[int]]:
    """Return the mean of (examples, checked payload), and the places of those that were cut to size."""
    total = np.zeros(layout.buffer_elements, np.float32)
    if not total.size:
        return total, []
    low, high = _limits([decode(payload) for _, payload in payloads[:HELD]], layout)
    cut = []
    for place, (examples, payload) in enumerate(payloads):
        buffers = decode(payload)
        inside = np.clip(buffers, low, high)
        weighted = np.zeros_like(total)
        if np.array_equal(inside, buffers):
            decode_into(payload, weighted, float(examples))
        else:
            cut.append(place)
            weighted += np.float32(examples) * inside
        total += weighted
    total *= np.float32(1 / sum(examples for examples, _ in payloads))
    return total, cut


def median_buffers(payloads: Sequence[bytes], layout: Layout) -> FloatVector:
    """Return the median of checked payloads, entry by entry; of more than `HELD` the first ones count."""
    if not layout.buffer_elements:
        return np.zeros(0, np.float32)
    return np.median(np.stack([decode(payload) for payload in payloads[:HELD]]), axis=0).astype(np.float32)


def _limits(buffers: list[FloatVector], layout: Layout) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the lowest and the highest number allowed at every place."""
    table = np.stack(buffers)
    if len(buffers) < FEW:
        return np.full_like(table[0], -np.inf), np.full_like(table[0], np.inf)
    middle = np.median(table, axis=0)
    distance = np.median(np.abs(table - middle), axis=0)
    start = 0
    for size in (tensor.size for tensor in layout.tensors if tensor.buffer):
        own = distance[start : start + size]
        # Entries on which most clients happen to agree are no reason to cut one that does not.
        np.maximum(own, np.median(own) if size else 0.0, out=own)
        start += size
    room = SPREAD * np.maximum(distance, LEAST_SPREAD * np.abs(middle))
    return (middle - room).astype(np.float32), (middle + room).astype(np.float32)
