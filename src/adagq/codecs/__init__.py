"""Codecs: a float32 vector -> bytes -> a float32 vector. The contract is in `adagq.codecs.codec`."""

from adagq.codecs.codec import LEVEL_BITS, MAX_LEVELS, Codec, Fitting
from adagq.codecs.decoding import decode, decode_into, inspect
from adagq.codecs.floats import Float16, Float32
from adagq.codecs.qsgd import QSGD
from adagq.codecs.signs import SignSGD, TernGrad
from adagq.codecs.topk import TopK
from adagq.codecs.wire import DEFAULT_MAX_ELEMENTS
from adagq.errors import NonFiniteError, PayloadError

__all__ = [
    "DEFAULT_MAX_ELEMENTS",
    "LEVEL_BITS",
    "MAX_LEVELS",
    "QSGD",
    "Codec",
    "Fitting",
    "Float16",
    "Float32",
    "NonFiniteError",
    "PayloadError",
    "SignSGD",
    "TernGrad",
    "TopK",
    "decode",
    "decode_into",
    "inspect",
]
