"""`adagq watch RUN --serve` in a real browser, over a run that goes on."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from browser import Browser, missing

from adagq.core.errors import CheckpointError, ConfigError
from adagq.report.live import server
from made_up import rows_and_ledger, write_run

FRESH = "return document.getElementById('now').innerText"


@contextmanager
def served(run_dir: Path, **options) -> Iterator[str]:
    with server(run_dir, port=0, **options) as listening:
        serving = threading.Thread(target=listening.serve_forever, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/"
        listening.shutdown()
        serving.join()


def status(run_dir: Path, round: int, **states: str) -> None:
    nodes = {
        name[1:]: {"name": f"site <b>{name[1:]}</b>", "state": state, "since": time.time() - 3}
        for name, state in states.items()
    }
    (run_dir / "status.json").write_text(json.dumps({"round": round, "at": time.time(), "nodes": nodes}), "utf-8")


def one_method(tmp_path: Path) -> tuple[Path, list[dict], list[dict]]:
    rows, ledger = rows_and_ledger(slow_learner="topk")
    mine = [[line for line in lines if line["method"] == "qsgd" and line["seed"] == 0] for lines in (rows, ledger)]
    return tmp_path / "run", *mine


def wait_for(browser: Browser, script: str, wanted: str) -> str:
    until = time.monotonic() + 30
    while wanted not in (text := str(browser.run(script))):
        assert time.monotonic() < until, text
        time.sleep(0.2)
    return text


@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
def test_the_page_follows_a_run_from_before_its_first_round(tmp_path: Path) -> None:
    run_dir, rows, ledger = one_method(tmp_path)
    run_dir.mkdir()
    status(run_dir, 1, n0="computing", n1="sending")
    with Browser() as browser, served(run_dir) as address:
        browser.visit(address)
        text = browser.run(FRESH)
        assert "round 1 under way" in text
        assert "computing" in text
        assert "sending" in text
        last = rows[-1]["round"]
        write_run(run_dir, rows, ledger)
        incident = {"method": "qsgd", "seed": 0, "round": last, "client": 1, "kind": "lost", "reason": "<i>gone</i>"}
        (run_dir / "incidents.jsonl").write_text(json.dumps(incident) + "\n", "utf-8")
        status(run_dir, last + 1, n0="waiting", n1="lost")
        text = wait_for(browser, FRESH, f"round {last} closed, round {last + 1} under way")
        assert "site <b>0</b>" in text  # names are text, never markup
        assert "lost: <i>gone</i>" in text
        wait_for(browser, "return String(document.querySelectorAll('#accuracy svg .curve').length > 0)", "true")
        status(run_dir, last + 1, n0="sending", n1="lost")
        wait_for(browser, FRESH, "sending")
        assert browser.console() == []
        browser.screenshot(tmp_path / "live.png")
        assert (tmp_path / "live.png").stat().st_size > 20_000


def test_it_answers_its_own_address_and_two_paths_only(tmp_path: Path) -> None:
    run_dir, rows, ledger = one_method(tmp_path)
    write_run(run_dir, rows, ledger)
    with served(run_dir) as address:
        assert b"Accuracy over" in urllib.request.urlopen(address, timeout=20).read()
        for path, headers, code in (("rows.jsonl", {}, 404), ("now", {"Host": "evil.example"}, 403)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(address + path, headers=headers), timeout=20)
            assert refused.value.code == code


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        server(tmp_path / "nowhere", port=0)
    with server(tmp_path, port=0) as first, pytest.raises(ConfigError, match="cannot be listened on"):
        server(tmp_path, port=int(first.server_address[1]))
