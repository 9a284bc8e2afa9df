"""What is shipped and what it needs: the wheel runs without the checkout, the core without the extras."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from adagq.core.errors import ConfigError
from adagq.core.extras import need

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "adagq"
HEAVY = ("torch", "sklearn", "PIL", "matplotlib", "jinja2", "pandas", "flwr", "ray", "tensorboard", "datasets", "scipy")
# Runs the rest of its arguments as `python -m` does, as if none of HEAVY were installed.
BARE = f"""
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def shipped() -> set[str]:
    """Return every file of the package, as the wheel names it."""
    files = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE.parent).as_posix() for path in files}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that was built from a copy of the sources: building leaves files behind."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index"]
    subprocess.run([*command, "--no-deps", "--no-build-isolation", "-w", out, copy], check=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def adagq(site: Path, folder: Path, *arguments: str, bare: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the command of the package in `site` from `folder`."""
    environment = os.environ | {"PYTHONPATH": str(site), "COLUMNS": "120"}
    start = ["-c", BARE, "adagq.cli"] if bare else ["-m", "adagq.cli"]
    return subprocess.run(
        [sys.executable, *start, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    assert held == shipped()
    for needed in (
        "adagq/experiments/default.toml",
        "adagq/paper/experiments/exhibits.toml",
        "adagq/paper/experiments/scales/smoke.toml",
        "adagq/report/page.html.j2",
        "adagq/report/page.css",
        "adagq/report/main.js",
        "adagq/py.typed",
    ):
        assert needed in held


def test_the_wheel_asks_for_little_and_offers_the_rest(unpacked: Path) -> None:
    from importlib.metadata import Distribution

    (info,) = unpacked.glob("*.dist-info")
    metadata = Distribution.at(info).metadata
    assert metadata["Version"] == "0.2.0"
    plain = {Requirement(text).name for text in metadata.get_all("Requires-Dist") if "extra ==" not in text}
    assert plain == {"numpy", "numba", "xxhash", "pydantic", "typer", "click", "rich", "tomli-w"}
    extras = {"torch", "report", "pandas", "flower", "ray", "tensorboard", "mlflow", "wandb", "hub", "all", "dev"}
    extras |= {"docs", "parquet", "privacy"}
    assert set(metadata.get_all("Provides-Extra")) == extras


def test_commands_run_from_the_wheel_alone(unpacked: Path, tmp_path: Path) -> None:
    assert adagq(unpacked, tmp_path, "--version").stdout == "adagq 0.2.0\n"
    plan = adagq(unpacked, tmp_path, "plan", "--params", "11.2M")
    assert plan.returncode == 0, plan.stderr
    assert "adagq-fit" in plan.stdout
    cells = tomllib.loads((SOURCE / "paper/experiments/exhibits.toml").read_text("utf-8"))["table1"]["cells"]
    for cell in cells.values():
        shutil.copytree(ROOT / "results/small" / cell, tmp_path / "results/small" / cell)
    shown = adagq(unpacked, tmp_path, "reproduce", "table1", "--scale", "small", "--show-only")
    assert shown.returncode == 0, shown.stderr
    assert "Table I" in shown.stdout
    assert "adagq-fit" in shown.stdout


@pytest.mark.slow
def test_a_comparison_runs_from_the_wheel_alone(unpacked: Path, tmp_path: Path) -> None:
    """Slow: the kernels are compiled anew."""
    settings = ("--set", "training.max_rounds=1", "--set", "task.clients=4", "--workers", "1", "--out", "run")
    done = adagq(unpacked, tmp_path, "compare", "--methods", "qsgd,adagq-fit", *settings)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


def test_the_core_needs_no_extra(unpacked: Path, tmp_path: Path) -> None:
    plan = adagq(unpacked, tmp_path, "plan", "--params", "11.2M", bare=True)
    assert plan.returncode == 0, plan.stderr
    # No kernel is compiled before the missing package is named.
    train = adagq(unpacked, tmp_path, "train", "--workers", "1", bare=True)
    assert (train.returncode, train.stderr.strip()) == (2, 'adagq: torch is not installed: pip install "adagq[torch]"')

    for bench in ("scale", "simulator", "update", "attack"):  # nor a table begun
        done = adagq(unpacked, tmp_path, "bench", bench, bare=True)
        assert (done.returncode, done.stdout, done.stderr.strip()) == (2, "", train.stderr.strip())


def test_codecs_alone_need_numpy_numba_and_xxhash() -> None:
    statement = """
import sys, numpy
from adagq.codecs import QSGD, decode
decode(QSGD(levels=15).encode(numpy.ones(9, "f4"), seed=1))
known = ("pydantic", "typer", "rich", "tomli_w", "click", *%r)
print(sorted(set(known) & set(sys.modules) - {"scipy"}))  # numba takes it where it is installed
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", statement % (HEAVY,)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("from adagq.learners import TorchLearner", ("torch", "torch")),
        ("from adagq.data import load_data; load_data('digits')", ("sklearn", "torch")),
        ("from adagq.data import load_data; load_data('wine')", ("sklearn", "torch")),
        ("from adagq.data.sources import from_hub; from_hub('cifar10')", ("datasets", "hub")),
        ("from adagq.data.sheets import _sheet; _sheet(b'')", ("PIL", "torch")),
    ],
)
def test_a_missing_extra_is_one_line(statement: str, missing: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "statement.py").write_text(statement)
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-c", BARE, "statement"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith(
        f'Error: {missing[0]} is not installed: pip install "adagq[{missing[1]}]"'
    )


def test_a_package_that_is_broken_is_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import no_such_dependency")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        need("broken_package", "torch")
    with pytest.raises(ConfigError, match=r'no_such_dependency is not installed: pip install "adagq\[report\]"'):
        need("no_such_dependency.part", "report")


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = (*HEAVY, "numba", "pydantic", "numpy")
    code = f"import sys, adagq; print(*(set({heavy!r}) & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == []
