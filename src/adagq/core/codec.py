"""The contract every codec keeps.

A codec is a frozen value that carries its own knobs. `encode` turns a float32 vector into bytes that name their
codec, version and size, so that any receiver decodes them with nothing else:

    payload = codec.encode(vector, seed=7, layout=layout)
    decode(payload)                              # float32 vector, any codec
    decode_into(payload, out, weight=0.05)       # out += weight * vector
    codec.rate_curve(vector, layout)             # predicted payload bits at levels 2^b - 1, b = 1..16
    n = codec.encode_into(vector, buffer)        # the same payload in memory that is warm already
    codec.max_bytes(elements, layout)            # no payload for that many elements is longer
    codec.mismatch(payload)                      # "" or why the payload is not of this codec and these knobs

- `len(payload)` is the size; nothing is counted by formula.
- Same vector, knobs and seed: same bytes, on any number of threads.
- A vector with NaN or infinity raises `NonFiniteError` before anything is encoded.
- `decode` never returns a number that is not finite; bytes that are not a payload raise `PayloadError`.
- The input is never written to.

Clients and server encode through `adagq.codecs.sending.send`, which serves plain and `Stateful` codecs alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from adagq.core.vectors import FloatVector, Layout

LEVEL_BITS = 16
MAX_LEVELS = 2**LEVEL_BITS - 1

Out = bytearray | memoryview
Buffer = bytes | bytearray | memoryview
LayoutLike = Layout | Sequence[int] | None
Arrays = Mapping[str, NDArray[Any]]  # a codec's state at one client, or at the server


@runtime_checkable
class Codec(Protocol):
    """A frozen value with knobs; see the module docstring."""

    @property
    def unbiased(self) -> bool:
        """Whether E[decode(encode(v))] = v over seeds."""

    def encode(self, vector: NDArray[Any], seed: int = 0, layout: LayoutLike = None, threads: int = 1) -> bytes: ...

    def encode_into(
        self, vector: NDArray[Any], out: Out, seed: int = 0, layout: LayoutLike = None, threads: int = 1
    ) -> int:
        """Write the payload to the beginning of `out` and return its length."""
        ...

    def rate_curve(self, vector: NDArray[Any], layout: LayoutLike = None) -> NDArray[np.float64]:
        """Return the predicted payload bits at levels 2^b - 1, b = 1..16 (constant for codecs without levels)."""
        ...

    def max_bytes(self, elements: int, layout: LayoutLike = None) -> int:
        """Return a length that no payload of that many elements passes; with levels: at any levels.

        Without a layout the bound holds for every layout.
        """
        ...

    def mismatch(self, payload: Buffer, fitted: bool = False) -> str:
        """Return why the payload's header does not name this codec with these knobs; "" if it does.

        With `fitted` the levels may differ. Reads the header alone and never raises.
        """
        ...


@runtime_checkable
class Fitting(Protocol):
    """A codec with levels that can be chosen to fill a byte budget."""

    def fitted(self, vector: NDArray[Any], budget_bytes: int, layout: LayoutLike = None) -> Codec:
        """Return the codec with the most levels whose predicted payload stays within the budget."""
        ...


@runtime_checkable
class Leveled(Protocol):
    """A codec whose resolution is a number of levels."""

    @property
    def levels(self) -> int: ...

    def with_levels(self, levels: int) -> Codec:
        """Return the same codec with another number of levels."""
        ...


@runtime_checkable
class Averaged(Protocol):
    """A codec that goes by the noise of a mean over clients."""

    def over(self, clients: int) -> Codec:
        """Return the codec for a mean over so many clients."""
        ...


def levels_of(codec: Codec) -> int:
    """Return the levels of a codec, also of one inside a wrapper; 0 if it has none."""
    return int(codec.levels) if isinstance(codec, Leveled) else 0


class Encoded(NamedTuple):
    """What one call of `send` made."""

    payload: bytes
    received: FloatVector  # what the payload decodes to
    state: Arrays  # to be given to the next call; {} without state
    codec: Codec  # the plain codec that was used, its levels fitted
    energy: float  # ||vector||²
    error_energy: float  # ||received - vector||²
    vector: FloatVector  # what was encoded: the caller's vector, feedback included


@runtime_checkable
class Stateful(Protocol):
    """A codec that keeps named arrays from one call to the next."""

    def encode_with_state(
        self,
        vector: FloatVector,
        state: Arrays,
        *,
        seed: int,
        layout: LayoutLike,
        reference: FloatVector | None,
        budget_bytes: int | None,
    ) -> Encoded:
        """Encode `vector`; `state` is {} at the first call, `reference` the last aggregate that both ends hold."""
        ...


@runtime_checkable
class Scheduled(Protocol):
    """A codec whose knobs follow the rounds: PowerSGD's sides take turns, CMFL's threshold falls."""

    def at_round(self, round: int) -> Codec:
        """Return the codec as it is in this round; rounds count from 1."""
        ...


def in_round(codec: Codec, round: int) -> Codec:
    """Return what a codec is in this round: itself, unless it follows the rounds."""
    return codec.at_round(round) if isinstance(codec, Scheduled) else codec
