"""What `adagq` exports: names that users may rely on, no more, and an import without side effects."""

import inspect
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import adagq
from adagq import codecs

RIVALS = {"Cocktail", "STC", "DGC", "Eden", "FedDQ", "OneBit", "PowerSGD", "SparseLoCo", "Wangni"}
RIVALS |= {"Correlated", "DeadZone", "FairTopK", "FedFQ", "Nonzeros", "Projection", "Signum", "Withheld"}
CODECS = {"Float32", "Float16", "QSGD", "TopK", "TernGrad", "SignSGD"} | RIVALS


def test_codecs_exports() -> None:
    assert set(codecs.__all__) == CODECS | {
        "CODECS",
        "DEFAULT_MAX_ELEMENTS",
        "LEVEL_BITS",
        "MAX_LEVELS",
        "CMFL",
        "Clipped",
        "Codec",
        "Either",
        "Fading",
        "Encoded",
        "ErrorFeedback",
        "Fitting",
        "Leveled",
        "NonFiniteError",
        "PayloadError",
        "Stateful",
        "codec_from_plain",
        "codec_to_plain",
        "decode",
        "decode_into",
        "inspect",
        "levels_of",
        "register",
        "send",
    }
    for name in codecs.__all__:
        assert getattr(codecs, name) is not None


def test_signatures_are_stable() -> None:
    for name in CODECS:
        assert list(inspect.signature(getattr(codecs, name).encode).parameters)[1:] == [
            "vector",
            "seed",
            "layout",
            "threads",
        ]
        assert list(inspect.signature(getattr(codecs, name).rate_curve).parameters)[1:] == ["vector", "layout"]
        assert isinstance(getattr(codecs, name)(), codecs.Codec)
    limits = ["max_bytes", "reference"]
    assert list(inspect.signature(codecs.decode).parameters) == ["payload", "max_elements", "threads", *limits]
    assert list(inspect.signature(codecs.decode_into).parameters) == ["payload", "out", "weight", "threads", *limits]


def test_knobs_and_defaults_are_stable() -> None:
    assert codecs.QSGD() == codecs.QSGD(255, "vector", "l2", "stochastic", "entropy")
    assert codecs.TopK() == codecs.TopK(fraction=0.1, values="float32", indices="coded")
    assert codecs.TernGrad() == codecs.TernGrad(granularity="vector", packing="entropy")
    assert codecs.SignSGD() == codecs.SignSGD(granularity="vector")


def test_who_fits_a_budget() -> None:
    fitting = {name for name in CODECS if isinstance(getattr(codecs, name)(), codecs.Fitting)}
    assert fitting == {"DeadZone", "QSGD", "STC"}


def test_version() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["dynamic"] == ["version"]  # read from the package
    assert adagq.__version__ == version("adagq") == "0.2.0"


def test_every_public_name_resolves_and_nothing_else_leaks() -> None:
    assert dir(adagq) == sorted(adagq.__all__)
    for name in adagq.__all__:
        assert getattr(adagq, name) is not None
    code = "import adagq; print([name for name in vars(adagq) if not name.startswith('_')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['TYPE_CHECKING', 'Any', 'core', 'lazy_names']"  # and no part of the package
    with pytest.raises(AttributeError, match="no attribute 'simulator'"):
        _ = adagq.simulator
    assert adagq.codecs.QSGD is codecs.QSGD
    assert adagq.fleet.sigma_r(4.0, clients=8).clients == 8
    assert adagq.method_of("qsgd") is adagq.METHODS["qsgd"]
    assert all(issubclass(getattr(adagq, name), adagq.AdagqError) for name in adagq.__all__ if name.endswith("Error"))


def test_signatures_of_the_two_calls_are_stable() -> None:
    for call in (adagq.compare, adagq.train):
        assert list(inspect.signature(call).parameters) == [
            "config", "out", "workers", "resume", "on_round", "settings",
        ]  # fmt: skip


def test_import_is_quick_and_light() -> None:
    heavy = ["numpy", "numba", "torch", "pydantic", "matplotlib", "pandas", "rich", "typer", "jinja2"]
    code = (
        "import sys, time; start = time.perf_counter(); import adagq; took = time.perf_counter() - start;"
        f"print(took, [name for name in {heavy!r} if name in sys.modules])"
    )
    tries = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    assert {done.stdout.split(maxsplit=1)[1].strip() for done in tries} == {"[]"}
    assert min(float(done.stdout.split()[0]) for done in tries) < 0.1


def test_import_starts_no_thread_and_needs_no_torch() -> None:
    code = (
        "import sys, threading, adagq.codecs, adagq.core.vectors, adagq.core.messages;"
        "assert threading.active_count() == 1, threading.enumerate();"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
