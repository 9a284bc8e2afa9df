"""`Encoder`: what all codecs with a frame of their own share."""

from typing import Any

from numpy.typing import NDArray

from adagq.codecs.registry import entry_of
from adagq.codecs.wire import Header, read_header
from adagq.codecs.writing import Writer
from adagq.core.codec import Buffer, LayoutLike, Out
from adagq.core.errors import PayloadError


class Encoder:
    """`encode`, `encode_into` and `mismatch` for registered codecs that say how to write and compare their frame."""

    __slots__ = ()

    def write(self, vector: NDArray[Any], seed: int, layout: LayoutLike, threads: int, out: Out | None) -> Writer:
        """Return the filled frame, in `out` if given."""
        raise NotImplementedError

    def knob_mismatch(self, header: Header, fitted: bool) -> str:
        """Return what differs between the header's knobs and this codec's; "" if nothing does."""
        return ""

    def encode(self, vector: NDArray[Any], seed: int = 0, layout: LayoutLike = None, threads: int = 1) -> bytes:
        return self.write(vector, seed, layout, threads, None).finish()

    def encode_into(
        self, vector: NDArray[Any], out: Out, seed: int = 0, layout: LayoutLike = None, threads: int = 1
    ) -> int:
        return len(self.write(vector, seed, layout, threads, out).finish())

    def mismatch(self, payload: Buffer, fitted: bool = False) -> str:
        try:
            header = read_header(payload)
        except PayloadError as error:
            return str(error)
        if header.tag != (tag := entry_of(self).tag):
            return f"a payload with codec tag {header.tag}, asked for was {tag}"
        return self.knob_mismatch(header, fitted)


def knobs_differ(*pairs: tuple[str, object, object]) -> str:
    """Return the first difference of (name, in the payload, asked for); "" if there is none."""
    for name, actual, asked in pairs:
        if actual != asked:
            return f"{name} = {actual}, asked for {'were' if name == 'levels' else 'was'} {asked}"
    return ""
