"""Payloads that build on the last aggregate: how they name it, and how a receiver knows that it holds the same.

Both ends hold the step that was broadcast last. A payload carries its digest; 0 says that there was none, as for a
client that has just got the whole model, and then nothing is built on. Zeros are none: nothing can be built on them.
"""

import numpy as np
import xxhash

from adagq.codecs.wire import Frame
from adagq.core.errors import PayloadError
from adagq.core.vectors import FloatVector

NONE = 0


def digest_of(reference: FloatVector | None) -> int:
    """Return the digest of a reference, 0 if there is none."""
    if reference is None or not reference.any():
        return NONE
    return xxhash.xxh3_64_intdigest(np.ascontiguousarray(reference, np.float32).data) or 1


def named_reference(frame: Frame, digest: int) -> FloatVector | None:
    """Return the reference that a payload names by its digest; PayloadError if the receiver holds another."""
    if digest == NONE:
        return None
    reference = frame.needed_reference()
    if digest_of(reference) != digest:
        raise PayloadError("it builds on another aggregate than the last one here")
    return reference
