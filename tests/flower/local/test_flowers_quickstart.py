"""Flower's quickstart-pytorch becomes an app of ours by the lines that docs/deployment.md shows."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from local.conftest import ROOT

from adagq.flower.local.cluster import Federation

APP = Path(__file__).parent / "flowers_quickstart"
ROUNDS = 2


def changed(text: str, diff: str) -> str:
    """Return the text with a diff applied: kept and removed lines must be there in this order."""
    lines: Iterator[str] = iter(text.splitlines())
    result: list[str] = []
    for shown in filter(str.strip, diff.splitlines()):
        sign, line = shown[0], shown[1:]
        if sign == "+":
            result.append(line)
            continue
        for there in lines:
            if there == line:
                break
            result.append(there)
        else:
            raise AssertionError(f"the app has no line {line!r} here")
        if sign == " ":
            result.append(line)
    return "\n".join([*result, *lines]) + "\n"


def converted(folder: Path) -> Path:
    """Return a copy of Flower's app with the changes of docs/deployment.md."""
    app = Path(shutil.copytree(APP, folder / "app", ignore=shutil.ignore_patterns("__pycache__")))
    text = (ROOT / "docs" / "deployment.md").read_text("utf-8").partition("## You have a Flower app")[2]
    server, client = re.findall(r"```diff\n(.*?)```", text, re.DOTALL)[:2]
    learner = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert learner is not None
    package = app / "pytorchexample"
    for name, diff in (("server_app.py", server), ("client_app.py", client)):
        (package / name).write_text(changed((package / name).read_text("utf-8"), diff), "utf-8")
    (package / "learner.py").write_text(learner[1], "utf-8")
    return app


def test_it_runs_on_two_real_nodes_with_everything_it_had(tmp_path: Path) -> None:
    app, found = converted(tmp_path), tmp_path / "result.json"
    assert "import torch" not in (app / "pytorchexample" / "client_app.py").read_text("utf-8")
    with Federation(2, tmp_path / "flower") as federation:
        running = federation.run(app, {"num-server-rounds": ROUNDS, "result": str(found)})
        assert running.wait(600) == 0, federation.tail("run", 20)
        log = (tmp_path / "flower" / "run.log").read_text("utf-8", "replace")
    result = json.loads(found.read_text("utf-8"))
    assert list(result["evaluate_metrics_serverapp"]) == ["0", "1", "2"]
    assert result["evaluate_metrics_serverapp"]["2"]["accuracy"] > result["evaluate_metrics_serverapp"]["0"]["accuracy"]
    assert set(result["evaluate_metrics_clientapp"]["2"]) == {"eval_loss", "eval_acc"}
    trained = [result["train_metrics_clientapp"][str(number)] for number in range(1, ROUNDS + 1)]
    assert trained[1]["train_loss"] < trained[0]["train_loss"]
    assert all(0 < one["upload-bytes"] < 2 * 4 * 16_000 for one in trained)  # two whole models of 15,944 parameters
    assert "WARNING" not in log, log


def test_the_app_as_it_was_runs_on_flower_alone() -> None:
    """What is changed is what Flower's own example looks like: it imports nothing of ours."""
    text = "".join(path.read_text("utf-8") for path in APP.rglob("*.py"))
    assert "import adagq" not in text
    assert "from adagq" not in text
