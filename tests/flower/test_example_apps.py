"""The example apps, run within this process by Flower's own ServerApp and ClientApp: they learn, and are short."""

import re
from pathlib import Path

import pytest
from app_grid import run_app

EXAMPLES = Path(__file__).parents[2] / "examples"
APPS = {
    "flower_sklearn": (("sklearn",), 0.8),
    "flower_jax": (("jax",), 0.8),
    "flower_lora": (("transformers", "peft"), 0.7),
}


@pytest.mark.parametrize("name", APPS)
def test_it_learns_and_its_nodes_evaluate(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs, accuracy = APPS[name]
    for module in needs:
        pytest.importorskip(module, reason=f"{name} needs {module}, which the project does not install")
    grid = run_app(EXAMPLES / name, tmp_path, num_server_rounds=5)
    printed = capsys.readouterr().out
    found = [float(text) for text in re.findall(r"'eval_acc': ([\d.]+)", printed)]
    assert len(found) == 5, printed
    assert found[-1] > accuracy
    assert not [content for _, content in grid.asked if "arrays" in content]  # whole models never travel


@pytest.mark.parametrize("name", APPS)
def test_it_is_short(name: str) -> None:
    lines = [line for path in (EXAMPLES / name / name).glob("*.py") for line in path.read_text("utf-8").splitlines()]
    assert len([line for line in lines if line.strip()]) < 110
