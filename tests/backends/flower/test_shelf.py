"""A node's disk."""

from pathlib import Path

import numpy as np

from adagq.backends.flower.shelf import Shelf, digest_of
from adagq.client import Copy

VECTOR, BUFFERS = np.arange(5, dtype=np.float32), np.ones(2, np.float32)


def test_a_copy_comes_back(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "node")
    assert shelf.copy() is None
    shelf.keep(Copy.first(7, VECTOR, BUFFERS))
    copy = shelf.copy()
    assert copy.version == 7
    assert digest_of(copy.vector, copy.buffers) == digest_of(VECTOR, BUFFERS)
    assert [path.name for path in shelf.folder.iterdir()] == ["model.npz"]


def test_a_torn_copy_is_none(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.keep(Copy.first(7, VECTOR, BUFFERS))
    shelf.model.write_bytes(shelf.model.read_bytes()[:-40])
    assert shelf.copy() is None


def test_a_round_that_is_asked_again_finds_the_residual_it_began_with(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    assert shelf.residual(1) is None
    for round in (1, 2, 3):
        shelf.keep_residual(round, VECTOR + round)
    np.testing.assert_array_equal(shelf.residual(4), VECTOR + 3)
    np.testing.assert_array_equal(shelf.residual(3), VECTOR + 2)
    shelf.keep_residual(3, VECTOR - 1)
    np.testing.assert_array_equal(shelf.residual(4), VECTOR - 1)
    np.testing.assert_array_equal(shelf.residual(3), VECTOR + 2)
    assert len(list(tmp_path.glob("residual-*"))) == 2


def test_the_digest_tells_one_bit(tmp_path: Path) -> None:
    other = VECTOR.copy()
    other[3] = np.nextafter(other[3], np.float32(9))
    assert digest_of(other, BUFFERS) != digest_of(VECTOR, BUFFERS)
