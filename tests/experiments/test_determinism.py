"""The same settings give the same bytes, whatever the process around them looks like."""

import os
from pathlib import Path

from command import SMALL, adagq, environment

SETTINGS = [
    *("compare", "--methods", "adagq,adagq-fit+residual,topk", *SMALL),
    *("--set", "training.max_rounds=3", "--set", "task.width=240"),  # long enough for several threads
]
FILES = ("config.toml", "rows.jsonl", "ledger.jsonl", "incidents.jsonl")
SURROUNDINGS = (
    {"workers": "1", "cores": "0", "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
    {"workers": "3", "cores": "all", "PYTHONHASHSEED": "977", "OMP_NUM_THREADS": "4", "NUMBA_NUM_THREADS": "2"},
)


def test_workers_threads_cores_and_hash_seeds_change_no_byte(tmp_path: Path) -> None:
    kept = os.sched_getaffinity(0)
    for number, surroundings in enumerate(SURROUNDINGS):
        variables = {name: value for name, value in surroundings.items() if name.isupper()}
        if surroundings["cores"] == "0":
            os.sched_setaffinity(0, {min(kept)})  # the server adds up on as many threads as there are cores
        try:
            done = adagq(
                *SETTINGS, "--workers", surroundings["workers"], "--out", str(tmp_path / str(number)),
                env=environment(tmp_path / "t", **variables),
            )  # fmt: skip
        finally:
            os.sched_setaffinity(0, kept)
        assert done.returncode == 0, done.stderr
    for name in FILES:
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes(), name
