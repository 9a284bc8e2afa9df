"""Codecs: a float32 vector -> bytes -> a float32 vector. The contract is in `adagq.codecs.codec`."""

from adagq.codecs.codec import LEVEL_BITS, MAX_LEVELS, Codec
from adagq.codecs.decoding import decode, decode_into, inspect
from adagq.codecs.floats import Float32
from adagq.codecs.wire import DEFAULT_MAX_ELEMENTS
from adagq.errors import NonFiniteError, PayloadError

__all__ = [
    "DEFAULT_MAX_ELEMENTS",
    "LEVEL_BITS",
    "MAX_LEVELS",
    "Codec",
    "Float32",
    "NonFiniteError",
    "PayloadError",
    "decode",
    "decode_into",
    "inspect",
]
