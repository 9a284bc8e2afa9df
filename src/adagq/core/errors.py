"""Everything that adagq raises on purpose.

    AdagqError
    ├── ConfigError        a setting, a flag or a combination of them cannot work      (exit code 2)
    ├── DataError          a data set is missing, incomplete or cannot be split so     (exit code 2)
    ├── LayoutError        tensors do not match the layout they are packed into
    ├── NonFiniteError     an update holds NaN or infinity; nothing was sent
    ├── PayloadError       received bytes are not a payload that may be decoded
    ├── CheckpointError    a run directory or checkpoint is torn, foreign or in use    (exit code 2)
    ├── OutputError        a file cannot be written: the disk is full or read-only     (exit code 2)
    └── DivergedError      training left numbers that are not finite, at most clients  (exit code 3)

The message names the key, the value and what is allowed: it is the only thing a user gets to see.
"""


class AdagqError(Exception):
    """Base of all errors that adagq raises on purpose."""


class ConfigError(AdagqError, ValueError):
    """A setting, a flag or a combination of them cannot work."""


class DataError(AdagqError):
    """A data set is missing, incomplete, or cannot be split as asked."""


class LayoutError(AdagqError, ValueError):
    """Tensors do not match the layout they are packed into or unpacked from."""


class NonFiniteError(AdagqError, ValueError):
    """A vector holds NaN or infinity; nothing was encoded."""


class PayloadError(AdagqError, ValueError):
    """Received bytes are not a payload that may be decoded; the message says what is wrong."""


class CheckpointError(AdagqError):
    """A run directory or checkpoint is torn, foreign or in use."""


class OutputError(AdagqError):
    """A file cannot be written: the disk is full, read-only, or something is in the way."""


class DivergedError(AdagqError):
    """Training left numbers that are not finite, at most clients: the learning rate is too high."""
