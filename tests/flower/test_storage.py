"""A node's disk."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from adagq.client.replica import Replica
from adagq.core.errors import PayloadError
from adagq.flower.storage import Storage, digest_of

VECTOR, BUFFERS = np.arange(5, dtype=np.float32), np.ones(2, np.float32)


def test_a_replica_comes_back(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "node")
    assert storage.replica() is None
    storage.keep(Replica.first(7, VECTOR, BUFFERS))
    replica = storage.replica()
    assert replica.version == 7
    assert digest_of(replica.vector, replica.buffers) == digest_of(VECTOR, BUFFERS)
    assert [path.name for path in storage.folder.iterdir()] == ["model.npz"]


def test_a_torn_replica_is_none(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.keep(Replica.first(7, VECTOR, BUFFERS))
    storage.model.write_bytes(storage.model.read_bytes()[:-40])
    assert storage.replica() is None


def test_a_round_that_is_asked_again_finds_the_state_it_began_with(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    assert storage.state(1) == {}
    for round in (1, 2, 3):
        storage.keep_state(round, {"residual": VECTOR + round, "factor": BUFFERS})
    np.testing.assert_array_equal(storage.state(4)["residual"], VECTOR + 3)
    np.testing.assert_array_equal(storage.state(3)["residual"], VECTOR + 2)
    storage.keep_state(3, {"residual": VECTOR - 1})
    np.testing.assert_array_equal(storage.state(4)["residual"], VECTOR - 1)
    np.testing.assert_array_equal(storage.state(3)["residual"], VECTOR + 2)
    assert len(list(tmp_path.glob("state-*"))) == 2


@pytest.mark.parametrize("run", ["", ".", "..", "a/b", "x" * 65, "a b"])
def test_a_run_cannot_name_another_folder(run: str, tmp_path: Path) -> None:
    with pytest.raises(PayloadError, match="run = "):
        Storage.of_run(tmp_path, "node", run)


def test_only_old_runs_of_ours_are_forgotten(tmp_path: Path) -> None:
    """A server that sends run = "" made 0.1 delete every old folder beside the node's own."""
    old = time.time() - 30 * 86400
    for name in ("old-run", "young-run", "photos"):
        storage = Storage.of_run(tmp_path, "node", name)
        storage.folder.mkdir(parents=True)
        if name != "photos":
            storage.keep(Replica.first(1, VECTOR, BUFFERS))
        if name != "young-run":
            os.utime(storage.folder, (old, old))
    Storage.of_run(tmp_path, "node", "this-run").forget_old_runs()
    assert sorted(path.name for path in (tmp_path / "node").iterdir()) == ["photos", "young-run"]


def test_the_digest_tells_one_bit(tmp_path: Path) -> None:
    other = VECTOR.copy()
    other[3] = np.nextafter(other[3], np.float32(9))
    assert digest_of(other, BUFFERS) != digest_of(VECTOR, BUFFERS)
