"""A codec, a controller, a server optimizer and a data set, each one file outside src, in one comparison."""

import json
import shutil
from pathlib import Path

from command import adagq

PLUGINS = Path(__file__).parents[1] / "plugins"
FILES = ("lowrank_codec.py", "halving_controller.py", "clipping_optimizer.py", "rings_dataset.py")
SETTINGS = f"""
plugins = {list(FILES)}
methods = ["low-rank", "halving", "qsgd+clipping", "low-rank+nesterov"]
payload_scale = 1.0

[variants.low-rank]
base = "qsgd"
uplink = {{ kind = "lowrank", rank = 1 }}

[variants.halving]
base = "qsgd"
controller = {{ kind = "halving", levels = 64 }}
optimizer = {{ kind = "clipping", largest = 0.3 }}

[training]
max_rounds = 4
target = 1.0

[task]
data = "rings"
samples = 800
model = "mlp"
width = 16
partition = "iid"
clients = 4
"""


def test_one_file_each_is_all_that_a_comparison_needs(tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(PLUGINS / name, tmp_path)
    (tmp_path / "mine.toml").write_text(SETTINGS)
    out = tmp_path / "run"
    done = adagq("compare", str(tmp_path / "mine.toml"), "--out", str(out), "--workers", "2", timeout=300)
    assert done.returncode == 0, done.stderr
    rows: dict[str, list[dict]] = {}
    for line in (out / "rows.jsonl").read_text().splitlines():
        rows.setdefault(json.loads(line)["method"], []).append(json.loads(line))
    assert {name: len(own) for name, own in rows.items()} == dict.fromkeys(
        ("low-rank", "halving", "qsgd+clipping", "low-rank+nesterov", "ideal"), 4
    )
    assert [row["levels"] for row in rows["halving"]] == [64, 32, 16, 8]
    assert rows["low-rank"][-1]["upload_bytes"] < rows["ideal"][-1]["upload_bytes"]
    assert rows["low-rank"][0]["norm"] == rows["low-rank+nesterov"][0]["norm"]
    assert rows["low-rank"][-1]["norm"] != rows["low-rank+nesterov"][-1]["norm"]
    assert all(own[-1]["accuracy"] > 0.4 for own in rows.values())
    assert "low-rank+nesterov" in (out / "report.html").read_text()
