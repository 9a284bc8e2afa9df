"""The audit log: what was decided, chained line to line; `adagq verify` finds what was changed."""

import json
import random
import shutil
from itertools import islice
from pathlib import Path

import pytest

from adagq.core.errors import CheckpointError
from adagq.experiments.audit import BEGIN, read_audit
from adagq.experiments.config import Config, load_config
from adagq.experiments.runner import run
from adagq.experiments.verify import verify
from command import SMALL, adagq


def config(*more: str) -> Config:
    methods = 'methods=["qsgd", "adagq-fit"]'
    return load_config(None, [methods, "training.max_rounds=3", "fleet.drop_rate=0.2", *SMALL[1::2], *more])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    list(run(config(), out))
    return out


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def lines(folder: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]


def rewrite(folder: Path, name: str, records: list[dict]) -> None:
    text = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    (folder / name).write_text(text, "utf-8")


def test_every_round_is_there_with_decisions_and_incidents(whole: Path) -> None:
    audit = read_audit(whole)
    rows = lines(whole, "rows.jsonl")
    assert [(r["method"], r["seed"], r["round"]) for r in audit.records] == [
        (row["method"], row["seed"], row["round"]) for row in rows
    ]
    assert audit.records[0]["previous"] == BEGIN
    said = [incident for record in audit.records for incident in record["incidents"]]
    assert said == [[line["client"], line["kind"], line["reason"]] for line in lines(whole, "incidents.jsonl")]
    for record in audit.records:
        for client, codec, budget, epochs in record["decisions"]:
            assert client >= 0
            assert codec.startswith("QSGD(")
            assert (budget is not None) == (record["method"] == "adagq-fit" and record["round"] > 1)
            assert epochs >= 1


def test_an_untouched_run_is_verified(whole: Path) -> None:
    found = verify(whole)
    assert found.rounds == len(lines(whole, "rows.jsonl"))
    assert found.checkpoint
    assert not found.unclosed_bytes
    assert verify(whole, found.last_hash) == found
    assert verify(whole, read_audit(whole).records[1]["hash"]) == found  # noted while the run was going on


def test_a_run_that_was_left_and_taken_up_is_verified(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    running = run(config(), out)
    list(islice(running, 4))
    running.close()
    with (out / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"half": ')
    assert verify(out).unclosed_bytes == 9
    list(run(config(), out, resume=True))
    assert verify(out) == verify(whole)
    list(run(config("seeds=2"), out, resume=True))  # more is asked for: the runs at their end are kept
    grown = verify(out)
    assert grown.rounds == 2 * verify(whole).rounds
    assert grown.checkpoint
    (out / "checkpoint.npz").unlink()
    assert not verify(out).checkpoint


@pytest.mark.parametrize("name", ["rows.jsonl", "ledger.jsonl", "incidents.jsonl"])
def test_a_changed_line_is_found_and_its_round_named(copy: Path, name: str) -> None:
    records = lines(copy, name)
    at = len(records) // 2
    records[at]["seed"] = 1
    rewrite(copy, name, records)
    round, method = records[at]["round"], records[at]["method"]
    with pytest.raises(CheckpointError, match=rf"{name}: changed, first in round {round} of {method}, seed 0"):
        verify(copy)


def test_changed_removed_and_inserted_records_break_the_chain(copy: Path) -> None:
    records = lines(copy, "audit.jsonl")
    for changed, reason in (
        ([*records[:2], {**records[2], "incidents": [[0, "lost", "?"]]}, *records[3:]], "line 3: changed after"),
        ([*records[:2], *records[3:]], "line 3: does not follow"),
        ([*records[:2], records[1], *records[2:]], "line 3: does not follow"),
        (records[:-1], r"audit\.jsonl: \d+ bytes, shorter"),
        (records[1:], "line 1: does not follow"),
    ):
        rewrite(copy, "audit.jsonl", changed)
        with pytest.raises(CheckpointError, match=reason):
            verify(copy)


def test_any_flipped_bit_is_found(whole: Path, tmp_path: Path) -> None:
    drawn = random.Random(4)
    for number in range(200):
        name = ("audit.jsonl", "rows.jsonl", "ledger.jsonl", "incidents.jsonl", "config.toml")[number % 5]
        data = bytearray((whole / name).read_bytes())
        data[drawn.randrange(len(data))] ^= 1 << drawn.randrange(8)
        shutil.copytree(whole, out := tmp_path / "run")
        (out / name).write_bytes(data)
        with pytest.raises(CheckpointError):
            verify(out)
        shutil.rmtree(out)


def test_a_log_that_was_made_anew_is_found_by_a_noted_hash(whole: Path, tmp_path: Path) -> None:
    noted = verify(whole).last_hash
    list(run(config("training.learning_rate=0.05"), tmp_path / "forged"))
    verify(tmp_path / "forged")
    with pytest.raises(CheckpointError, match="the log was made anew"):
        verify(tmp_path / "forged", noted)


def test_the_command_says_what_is_wrong(copy: Path) -> None:
    done = adagq("verify", str(copy))
    assert done.returncode == 0, done.stderr
    assert "unbroken" in done.stdout
    (copy / "rows.jsonl").write_bytes((copy / "rows.jsonl").read_bytes()[:-10])
    done = adagq("verify", str(copy))
    assert done.returncode == 2
    assert "rows.jsonl: cut short" in done.stderr
    assert "Traceback" not in done.stderr
    done = adagq("verify", str(copy / "nowhere"))
    assert done.returncode == 2
    assert "not a run directory" in done.stderr
