"""Recorded payloads: this release writes the same bytes and reads the same numbers. An absent file fails."""

import hashlib
import json

import numpy as np
import pytest
from golden_cases import CASES, FOLDER, HASHES, encoded, vector

from adagq.codecs import QSGD, decode, decode_into
from adagq.codecs.kernels.lattice import DITHER, RARE, ROUND, SPARSE
from adagq.codecs.registry import entries
from adagq.codecs.spans import Chunks, read_scales
from adagq.codecs.tables import read_model
from adagq.codecs.wire import parse

every = pytest.mark.parametrize("name", CASES)


def recorded(name: str) -> bytes:
    path = FOLDER / f"{name}.bin"
    assert path.is_file(), f"{path.name} is absent; it is written on purpose only, see make_golden.py"
    return path.read_bytes()


@every
def test_encodes_to_the_recorded_bytes(name: str) -> None:
    assert encoded(name) == recorded(name)


@every
def test_decodes_to_the_recorded_numbers(name: str) -> None:
    decoded = decode(recorded(name))
    assert hashlib.sha256(decoded.tobytes()).hexdigest() == json.loads(HASHES.read_text("utf-8"))[name]
    out = np.zeros(decoded.size, np.float32)
    decode_into(recorded(name), out, threads=2)
    np.testing.assert_array_equal(out, decoded)


def test_nothing_is_recorded_that_is_not_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.bin")} == set(CASES) == set(json.loads(HASHES.read_text("utf-8")))


def test_every_codec_is_recorded() -> None:
    assert {parse(recorded(name)).tag for name in CASES} == {
        entry.tag for entry in entries() if entry.tag and entry.tag < 64
    }


def test_every_family_raw_bits_and_both_chunk_lengths_are_recorded() -> None:
    families, shifts, classes, groups, chunk_sizes = set(), set(), set(), set(), set()
    for name, (codec, _) in CASES.items():
        frame = parse(recorded(name))
        if not isinstance(codec, QSGD) or codec.packing == "fixed":
            continue
        assert frame.flags & 1, f"{name} fell back to fixed packing"
        kind = {"vector": 0, "tensor": 1}.get(codec.granularity, 2)
        starts, _ = read_scales(frame, kind, codec.granularity if kind == 2 else 0)
        chunks = Chunks.of(starts)
        model = read_model(frame.sections[int(kind == 1) + 1].tobytes(), chunks)
        families |= {int(f) for f in model.families[np.unique(model.classes)]}
        shifts |= {bool(s) for s in model.shifts}
        classes.add(model.families.size > 1)
        groups |= {len(lengths) > 1 for lengths in model.groups}
        chunk_sizes.add(int(chunks.sizes.max()))
    assert families == {DITHER, ROUND, SPARSE, RARE}
    assert shifts == classes == groups == {False, True}
    assert chunk_sizes == {256, 2048}


def test_the_vectors_are_the_recorded_ones() -> None:
    """If this fails, the vectors changed and not the codecs."""
    joined = b"".join(vector(kind).tobytes() for kind in ("short", "falling", "long", "far", "huge"))
    assert hashlib.sha256(joined).hexdigest()[:16] == "e952d57291addce7"
