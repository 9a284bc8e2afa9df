"""Codecs: a float32 vector -> bytes -> a float32 vector. The contract is in `adagq.core.codec`.

Every codec is one file that registers itself (`adagq.codecs.registry`).
"""

from adagq.codecs.clipping import Clipped
from adagq.codecs.cocktail import Cocktail
from adagq.codecs.correlated import Correlated
from adagq.codecs.dead_zone import DeadZone
from adagq.codecs.decoding import decode, decode_into, inspect
from adagq.codecs.eden import Eden
from adagq.codecs.either import Either
from adagq.codecs.fading import Fading
from adagq.codecs.fair import FairTopK, Nonzeros
from adagq.codecs.feddq import FedDQ
from adagq.codecs.fedfq import FedFQ
from adagq.codecs.feedback import ErrorFeedback
from adagq.codecs.floats import Float16, Float32
from adagq.codecs.onebit import OneBit
from adagq.codecs.powersgd import PowerSGD
from adagq.codecs.projection import Projection
from adagq.codecs.qsgd import QSGD
from adagq.codecs.registry import CODECS, codec_from_plain, codec_to_plain, register
from adagq.codecs.sending import send
from adagq.codecs.signs import SignSGD, TernGrad
from adagq.codecs.signum import Signum
from adagq.codecs.sparse_feedback import DGC, SparseLoCo
from adagq.codecs.stc import STC
from adagq.codecs.topk import TopK
from adagq.codecs.wangni import Wangni
from adagq.codecs.wire import DEFAULT_MAX_ELEMENTS
from adagq.codecs.withholding import CMFL, Withheld
from adagq.core.codec import LEVEL_BITS, MAX_LEVELS, Codec, Encoded, Fitting, Leveled, Stateful, levels_of
from adagq.core.errors import NonFiniteError, PayloadError

__all__ = [
    "CMFL",
    "CODECS",
    "DEFAULT_MAX_ELEMENTS",
    "DGC",
    "LEVEL_BITS",
    "MAX_LEVELS",
    "QSGD",
    "STC",
    "Clipped",
    "Cocktail",
    "Codec",
    "Correlated",
    "DeadZone",
    "Eden",
    "Either",
    "Encoded",
    "ErrorFeedback",
    "Fading",
    "FairTopK",
    "FedDQ",
    "FedFQ",
    "Fitting",
    "Float16",
    "Float32",
    "Leveled",
    "NonFiniteError",
    "Nonzeros",
    "OneBit",
    "PayloadError",
    "PowerSGD",
    "Projection",
    "SignSGD",
    "Signum",
    "SparseLoCo",
    "Stateful",
    "TernGrad",
    "TopK",
    "Wangni",
    "Withheld",
    "codec_from_plain",
    "codec_to_plain",
    "decode",
    "decode_into",
    "inspect",
    "levels_of",
    "register",
    "send",
]
