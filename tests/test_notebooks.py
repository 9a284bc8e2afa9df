"""The notebooks run from top to bottom, and the outputs that they show are those of a run."""

import contextlib
import io
import json
import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"


def outputs(path: Path) -> list[str]:
    """Run the code cells in one namespace; return what each prints."""
    names: dict[str, object] = {"__name__": "__notebook__"}
    printed = []
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
            printed.append(said.getvalue())
    return printed


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    kept = ["".join(text for output in cell["outputs"] for text in output["text"]) for cell in cells]
    found = outputs(path)
    # Numbers may differ in their last digits from one processor to the next; what is shown does not.
    assert [len(text.splitlines()) for text in found] == [len(text.splitlines()) for text in kept]
    assert os.listdir(tmp_path) == []
