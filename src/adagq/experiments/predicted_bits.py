"""Bits per parameter that a row of the table of methods will send, before anything is trained.

A codec whose size does not depend on a controller is asked itself: it encodes a heavy-tailed sample. Where a controller
chooses, its rule is followed: equal finishing times for AdaGQ, spare time filled with bits for Fit.
"""

from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.codecs import Codec, Float16, Float32, PowerSGD, Projection, send
from adagq.codecs.sending import NO_STATE
from adagq.control import AdaGQ, Fit, allocate
from adagq.core.codec import Arrays, Stateful
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector, Layout
from adagq.experiments.plan_input import PlanInput
from adagq.methods.table import Method

FloatArray = NDArray[np.float64]
SAMPLE: Final = 1 << 16
WARM_UP: Final = 6  # DGC takes five updates to its own share
MATRIX: Final = Layout.of({"conv": np.zeros((256, 256, 3, 3), np.float32)})  # larger ones shrink more


def is_compressed(method: Method) -> bool:
    """Whether updates travel as anything less than plain floats."""
    return not isinstance(method.uplink, Float32 | Float16)


def bits_per_parameter(codec: Codec) -> float:
    """Return the bits that one more parameter takes; headers and tables, which do not grow, are left out.

    >>> bits_per_parameter(Float16())
    16.0
    """
    frozen: Any = codec
    return _sampled_bits(frozen)


@cache
def _sampled_bits(codec: Codec) -> float:
    if isinstance(codec, PowerSGD | Projection):
        return 8.0 * codec.max_bytes(MATRIX.elements, MATRIX) / MATRIX.elements
    sample = generator(0, "plan").standard_t(4.0, SAMPLE).astype(np.float32)
    half = SAMPLE // 2
    whole, part = (_steady_bytes(codec, sample[:size]) for size in (SAMPLE, half))
    return 8.0 * (whole - part) / (SAMPLE - half)


def _steady_bytes(codec: Codec, sample: FloatVector) -> int:
    """Return the payload's bytes once a codec with a memory has warmed up; the last aggregate is like the update."""
    state: Arrays = NO_STATE
    layout = Layout.of_sizes([sample.size])
    for _ in range(WARM_UP if isinstance(codec, Stateful) else 1):
        encoded = send(codec, sample, state, layout=layout, reference=sample)
        state = encoded.state
    return len(encoded.payload)


def upload_bits(method: Method, given: PlanInput, rates: FloatArray, compute: FloatArray) -> FloatArray:
    """Return each client's bits per parameter up, from its rate (bit/s) and its seconds per local epoch."""
    if isinstance(method.controller, Fit):
        return _fit_bits(given, rates, compute)
    if isinstance(method.controller, AdaGQ):
        # Fixed packing: b magnitude bits and a sign.
        packed = np.tile(given.params * np.arange(2.0, 18.0), (rates.size, 1))
        return 1.0 + allocate(compute, 1.0 / rates, packed, given.adagq_levels).astype(np.float64)
    return np.full(rates.size, bits_per_parameter(method.uplink))


def download_bits(method: Method, given: PlanInput) -> float:
    """Return the bits per parameter down."""
    return given.fit_downlink_bits if isinstance(method.controller, Fit) else bits_per_parameter(method.downlink)


def _fit_bits(given: PlanInput, rates: FloatArray, compute: FloatArray) -> FloatArray:
    """Everyone fills the time until `tau` with entropy-coded bits."""
    least = given.fit_min_bits * given.params / rates
    tau = np.max(compute + np.maximum(least, given.fit_slack_seconds))
    bits: FloatArray = np.clip((tau - compute) * rates / given.params, given.fit_min_bits, given.fit_max_bits)
    return bits
