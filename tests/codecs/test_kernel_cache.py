"""Compiled kernels: never those of another source, kept where there is room, and said so while they are made."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import adagq
from adagq.codecs.kernels.cache import FOLDER, MARK, PREFIX, SOURCES, source_digest

COUNT = (
    "import numpy as np; from adagq.codecs.kernels.integers import count_tokens;"
    "counts = np.zeros(256, np.int64); count_tokens(np.array([3, 3, -3], np.int32), 0, counts);"
    "print(counts[5], counts[6])"
)


def run(code: str, source: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    env |= {"PYTHONPATH": str(source)} | environment
    return subprocess.run([sys.executable, "-c", code], check=True, env=env, capture_output=True, text=True)


def copied(folder: Path) -> Path:
    package = Path(adagq.__file__).parent
    for part in ("core", "codecs"):
        shutil.copytree(package / part, folder / "adagq" / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "adagq" / "__init__.py").touch()
    return folder


def test_the_folder_is_that_of_these_sources() -> None:
    assert FOLDER is not None
    assert FOLDER.name == PREFIX + source_digest(SOURCES)


def test_a_kernel_that_calls_a_changed_one_is_compiled_again(tmp_path: Path) -> None:
    """And the file of the kernel that is called from outside is the same: Numba alone would run the old one."""
    source = copied(tmp_path)
    assert run(COUNT, source).stdout == "2 1\n"
    again = run(COUNT, source)
    assert (again.stdout, again.stderr) == ("2 1\n", "")  # from the cache, and silent
    changed = source / "adagq" / "codecs" / "kernels" / "rans.py"
    text = changed.read_text("utf-8")
    assert text.count("np.uint64(q < 0)") == 1
    changed.write_text(text.replace("np.uint64(q < 0)", "np.uint64(q > 0)"), "utf-8")
    assert run(COUNT, source).stdout == "1 2\n"


def test_without_a_folder_kernels_are_compiled_and_the_user_is_informed(tmp_path: Path) -> None:
    done = run(COUNT, Path(adagq.__file__).parents[1], NUMBA_CACHE_DIR="/proc/none")
    assert done.stdout == "2 1\n"
    assert "compiling the codecs" in done.stderr
    assert "in every process" in done.stderr
    own = run(COUNT, Path(adagq.__file__).parents[1], NUMBA_CACHE_DIR=str(tmp_path))
    assert f"once; kept in {tmp_path}" in own.stderr
    assert list(tmp_path.glob(f"{PREFIX}*/**/*.nbi"))


def test_of_several_processes_one_says_that_it_compiles(tmp_path: Path) -> None:
    source, cache = Path(adagq.__file__).parents[1], {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert "compiling the codecs" in run(COUNT, source, **cache).stderr
    other = COUNT.replace("np.int64", "np.int32")  # another type: compiled anew
    assert run(other, source, **cache).stderr == ""
    (mark,) = tmp_path.glob(f"{PREFIX}*/{MARK}")
    os.utime(mark, (0, 0))
    assert "compiling the codecs" in run(other.replace("int32", "int16"), source, **cache).stderr
