"""The virtual clock: when each step of a round happens, from sizes, rates and work alone (spec section 3).

    start ── download ── probe ── train ── encode ── upload ──┐ server: decode in order of arrival, encode the
    aggregate
             every client reports ──→ server decides ─────┘ (3b overlaps with 3a; encoding waits for the later
             of both)

Nothing here reads the machine's clock. With `payload_scale` the body of every payload counts that many times,
its frame header once; controllers, ledger and rows see these link bytes, clients see their real ones.
"""

from dataclasses import dataclass

from adagq.codecs.wire import HEADER
from adagq.messages import Sync, Update

FRAME_BYTES = HEADER.size + 8  # of a payload with one section


@dataclass(frozen=True, slots=True)
class Scale:
    """Real payload bytes <-> bytes on the link.

    >>> Scale(10.0).link_bytes(156, payloads=1), Scale(10.0).real_bytes(1056, payloads=1)
    (1056, 156)
    """

    factor: float = 1.0

    def link_bytes(self, nbytes: float, payloads: int) -> int:
        """Return what `payloads` payloads of `nbytes` together count on the link."""
        header = FRAME_BYTES * payloads
        return round(header + (nbytes - header) * self.factor)

    def real_bytes(self, link_bytes: float, payloads: int) -> int:
        """Return the size of payloads that count `link_bytes` on the link."""
        header = FRAME_BYTES * payloads
        return int(header + (link_bytes - header) / self.factor)

    def sync(self, sync: Sync) -> int:
        return self.link_bytes(sync.nbytes, len(sync.payloads) + bool(sync.buffers))

    def update(self, update: Update) -> int:
        return self.link_bytes(update.nbytes, 1 + bool(update.buffers))

    def rate_bits(self, update: Update) -> tuple[float, ...]:
        """Return the update's rate curve as link bits, its buffers included."""
        extra = len(update.buffers)
        return tuple(8.0 * self.link_bytes(bits / 8 + extra, 1 + bool(extra)) for bits in update.rate_bits)
