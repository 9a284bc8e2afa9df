"""A checkpoint holds all that the next round depends on, what was broadcast included."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from test_synchronous import SCHEDULE, backend

from adagq.experiments.checkpoint import load, save
from adagq.methods.table import method_of
from adagq.rounds import synchronous
from adagq.simulation.processes import open_pool

RUN: dict[str, Any] = {"method": "adagq-fit", "seed": SCHEDULE.seed, "marks": {}, "settings": "these"}


@pytest.mark.parametrize("left_after", [1, 2, 5])
def test_adagq_fit_goes_on_with_what_was_broadcast(tmp_path: Path, left_after: int) -> None:
    method, path = method_of("adagq-fit"), tmp_path / "checkpoint.npz"
    rows = []
    with open_pool(1) as pool:
        running = backend(pool, method)
        for closed in islice(synchronous(method, running, SCHEDULE), 8):
            rows.append(closed.row)
            if closed.row["round"] == left_after:
                save(path, RUN, closed.state, running.checkpoint())
                left = repr((closed.state.broadcaster.latest, closed.state.downloaded))  # NaN is no equal of itself
    saved = load(path)
    assert saved is not None
    with open_pool(1) as pool:
        running = backend(pool, method)
        running.restore(saved.backend)
        state = saved.restore(method, running.layout)
        assert repr((state.broadcaster.latest, state.downloaded)) == left
        assert state.broadcaster.latest.nbytes == len(state.broadcaster.payloads[-1])
        assert (state.downloaded.nbytes > 0) == (left_after > 1)  # in the first round there is nothing to download
        rest = [closed.row for closed in islice(synchronous(method, running, SCHEDULE, state), 8 - left_after)]
    assert rest == rows[left_after:]
