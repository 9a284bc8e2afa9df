"""The frame: what is wrong with a payload is said, and nothing is allocated on its word alone."""

import struct
import tracemalloc

import numpy as np
import pytest
from contract import SIZES, layered
from forging import changed, framed

from adagq.codecs import QSGD, Float16, Float32, PayloadError, SignSGD, TopK, decode, decode_into, inspect
from adagq.codecs.wire import HEADER, MAX_SECTIONS, frame_size, parse

PAYLOAD = QSGD(7, "tensor").encode(layered(), seed=7, layout=SIZES)


def test_the_drawing_is_the_frame() -> None:
    x = np.array([1.0, -2.5, 3e-9], np.float32)
    assert Float32().encode(x, seed=5) == framed(1, 3, [x.tobytes()])
    assert Float16().encode(x, seed=5) == framed(2, 3, [x.astype(np.float16).tobytes()])
    assert HEADER.size == 48
    assert frame_size([12, 5]) == 48 + 8 + 12 + 8


def test_inspect_reads_the_header() -> None:
    facts = inspect(PAYLOAD)
    assert facts["codec"] == "qsgd"
    assert facts["elements"] == sum(SIZES)
    assert facts["seed"] == 7
    assert facts["bytes"] == len(PAYLOAD)
    assert len(facts["sections"]) == len(parse(PAYLOAD).sections) == 6


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "truncated: 0 bytes"),
        (PAYLOAD[:47], "truncated: 47 bytes"),
        (PAYLOAD[:50], "section table"),
        (PAYLOAD[:-4], "truncated"),
        (PAYLOAD + b"\0", "trailing bytes"),
        (b"PK" + PAYLOAD[2:], "not an adagq payload"),
        (changed(PAYLOAD, 3, b"\2"), "version 2"),
        (changed(PAYLOAD, 4, b"\x63"), "tag 99.*qsgd"),
        (changed(PAYLOAD, 6, struct.pack("<H", MAX_SECTIONS + 1)), "17 sections"),
        (PAYLOAD[:-1] + bytes([PAYLOAD[-1] ^ 1]), "corrupt: checksum"),
        (changed(PAYLOAD, 16, struct.pack("<Q", 2**60)), "at most"),
        (changed(PAYLOAD, 16, struct.pack("<Q", sum(SIZES) + 1)), "add up"),
        (changed(PAYLOAD, 32, struct.pack("<I", 0)), "levels = 0"),
        (changed(PAYLOAD, 32, struct.pack("<I", 65536)), "levels = 65536"),
        (framed(1, 4, [bytes(12)]), "3 numbers, the header says 4"),
        (framed(1, 4, [bytes(15)]), "multiple of 4"),
        (framed(1, 1, [struct.pack("<f", np.nan)]), "not finite"),
        (framed(2, 1, [struct.pack("<H", 0x7C00)]), "not finite"),
        (framed(2, 1, [struct.pack("<H", 0x7BFF)], struct.pack("<h", -126)), "not finite"),
        (framed(2, 1, [bytes(2)], struct.pack("<h", 300)), "exponent 300"),
        (framed(4, 5, [bytes(8), struct.pack("<II", 3, 3)]), "rise"),
        (framed(4, 5, [bytes(8), struct.pack("<II", 3, 5)]), "outside"),
        (framed(4, 1, [bytes(8), bytes(8)]), "2 entries for 1"),
        (framed(6, 32, [struct.pack("<f", np.inf), bytes(4)]), "scale"),
        (framed(6, 32, [struct.pack("<f", -1.0), bytes(4)]), "scale"),
        (framed(6, 33, [bytes(4), bytes(4)]), "words of signs"),
        (framed(3, 10, [bytes(4), bytes(4)], struct.pack("<IIBBBB", 1, 0, 3, 0, 0, 0)), "granularity 3"),
        (framed(3, 10, [bytes(4), bytes(4)], struct.pack("<IIBBBB", 1, 0, 2, 0, 0, 0)), "bucket"),
        (framed(3, 10, [bytes(4), bytes(4)], struct.pack("<IIBBBB", 1, 0, 0, 0, 2, 0)), "rounding"),
        (framed(3, 0, [b"", b"\1\0\0\1\x40\xff\x1f\0\xee\1", bytes(4), bytes(32), b""], b"\1", 1), "."),
    ],
)
def test_a_bad_payload_says_what_is_wrong(payload: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        decode(payload)
    out = np.ones(sum(SIZES), np.float32)
    with pytest.raises(PayloadError):
        decode_into(payload, out)
    assert (out == 1.0).all()


def test_entropy_packing_of_nothing_is_refused() -> None:
    """A well-formed model and stream for a vector without elements: no encoder writes it."""
    real = QSGD(1, "vector", "max").encode(np.array([1.0] + [0.0] * 4000, np.float32))
    frame = parse(real)
    assert frame.flags & 1
    sections = [b"", *(s.tobytes() for s in frame.sections[1:])]
    with pytest.raises(PayloadError):
        decode(framed(3, 0, sections, frame.knobs, 1))


def test_every_byte_and_every_length_counts() -> None:
    payload = TopK(0.3).encode(layered()[:40], seed=1)
    for at in range(len(payload)):
        for bit in (1, 128):
            with pytest.raises(PayloadError):
                decode(payload[:at] + bytes([payload[at] ^ bit]) + payload[at + 1 :])
        with pytest.raises(PayloadError):
            decode(payload[:at])


def test_the_caller_says_how_much_may_be_allocated() -> None:
    payload = SignSGD().encode(np.ones(1000, np.float32))
    assert decode(payload, max_elements=1000).size == 1000
    with pytest.raises(PayloadError, match="1000 elements, at most 999"):
        decode(payload, max_elements=999)
    for size in (999, 1001):
        with pytest.raises(PayloadError, match="1000 elements"):
            decode_into(payload, np.zeros(size, np.float32))


@pytest.mark.parametrize(
    ("tag", "knobs", "sections"),
    [
        (1, b"", [b""]),
        (2, b"", [b""]),
        (3, struct.pack("<IIBBBB", 1, 1, 2, 0, 0, 0), [b"", b""]),
        (3, struct.pack("<IIBBBB", 1, 1, 2, 0, 0, 1), [bytes(4)] * 5),
        (3, struct.pack("<IIBBBB", 65535, 0, 0, 0, 0, 0), [bytes(4), b""]),
        (4, struct.pack("<BBBbI", 0, 1, 0, 0, 2**32 - 1), [b"", b"", bytes(32), b""]),
        (4, struct.pack("<BBBbI", 0, 0, 0, 0, 0), [bytes(8), bytes(4)]),
        (6, struct.pack("<IB", 1, 2), [b"", b""]),
    ],
)
def test_a_short_payload_cannot_ask_for_more(tag: int, knobs: bytes, sections: list[bytes]) -> None:
    """A hundred bytes that claim ten million elements, one scale each: refused within what the caller allowed."""
    elements = 10_000_000
    payload = framed(tag, elements, sections, knobs, flags=int(len(sections) == 5))
    tracemalloc.start()
    try:
        with pytest.raises(PayloadError):
            decode(payload, max_elements=elements)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 4 * elements + 2**20
