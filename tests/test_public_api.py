"""What `adagq` exports: names that users may rely on, no more, and an import without side effects."""

import inspect
import os
import subprocess
import sys

import adagq
from adagq import codecs

CODECS = {"Float32", "Float16", "QSGD", "TopK", "TernGrad", "SignSGD"}


def test_codecs_exports() -> None:
    assert set(codecs.__all__) == CODECS | {
        "DEFAULT_MAX_ELEMENTS",
        "LEVEL_BITS",
        "MAX_LEVELS",
        "Codec",
        "Fitting",
        "NonFiniteError",
        "PayloadError",
        "decode",
        "decode_into",
        "inspect",
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
    assert list(inspect.signature(codecs.decode).parameters) == ["payload", "max_elements", "threads"]
    assert list(inspect.signature(codecs.decode_into).parameters) == ["payload", "out", "weight", "threads"]


def test_knobs_and_defaults_are_stable() -> None:
    assert codecs.QSGD() == codecs.QSGD(255, "vector", "l2", "stochastic", "entropy")
    assert codecs.TopK() == codecs.TopK(fraction=0.1, values="float32", indices="coded")
    assert codecs.TernGrad() == codecs.TernGrad(granularity="vector", packing="entropy")
    assert codecs.SignSGD() == codecs.SignSGD(granularity="vector")


def test_only_qsgd_fits_a_budget() -> None:
    assert {name for name in CODECS if isinstance(getattr(codecs, name)(), codecs.Fitting)} == {"QSGD"}


def test_version() -> None:
    from importlib.metadata import version

    assert adagq.__version__ == version("adagq")


def test_import_starts_no_thread_and_needs_no_torch() -> None:
    code = (
        "import sys, threading, adagq.codecs, adagq.vectors, adagq.messages;"
        "assert threading.active_count() == 1, threading.enumerate();"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
