"""Codecs by kind and by tag: one registration serves all, a clash is an error, and mistakes are named."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from contract import CHECKS, ELEMENTS, LAYOUT, layered

from adagq.codecs import (
    CODECS,
    QSGD,
    Codec,
    ErrorFeedback,
    TopK,
    codec_from_plain,
    codec_to_plain,
    decode,
    inspect,
    registry,
    send,
)
from adagq.codecs.decoding import decode_into
from adagq.codecs.fuzzing import survey
from adagq.codecs.registry import entry_of_tag, register
from adagq.codecs.wire import Frame
from adagq.codecs.writing import filled
from adagq.core.errors import ConfigError, PayloadError
from adagq.core.modules import load_plugin

PLUGIN = Path(__file__).parents[1] / "plugins" / "lowrank_codec.py"
KINDS = ["float16", "float32", "qsgd", "signsgd", "stc", "terngrad", "topk", "dead-zone"]
RIVALS = {"onebit": 8, "eden": 9, "wangni": 10, "cocktail": 11, "powersgd": 12, "feddq": 13, "withheld": 14}
RIVALS |= {"projection": 15, "correlated": 17, "fedfq": 18}
WRAPPERS = ["feedback", "clipped", "dgc", "sparseloco", "either", "fading"]  # payloads of the codec inside
WRAPPERS += ["cmfl", "fair-topk", "nonzeros", "signum"]


@pytest.fixture(scope="module", autouse=True)
def _plugin() -> None:
    load_plugin(str(PLUGIN))


def lowrank(rank: int) -> Codec:
    return codec_from_plain({"kind": "lowrank", "rank": rank})


def test_kinds_and_tags() -> None:
    assert set(CODECS) == {*KINDS, *RIVALS, *WRAPPERS, "lowrank"}
    assert {kind: CODECS[kind].tag for kind in KINDS} == dict(zip(KINDS, (2, 1, 3, 6, 7, 5, 4, 16), strict=True))
    assert {kind: CODECS[kind].tag for kind in RIVALS} == RIVALS
    assert all(CODECS[kind].tag is None for kind in WRAPPERS)
    assert entry_of_tag(99) is None


def test_a_taken_tag_or_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="tag 3 belongs to 'qsgd'"):
        register("mine", tag=3, decoder=lambda *_: None)(type("Mine", (), {}))
    with pytest.raises(ConfigError, match="'qsgd' already"):
        register("qsgd", tag=200, decoder=lambda *_: None)(type("Mine", (), {}))
    assert entry_of_tag(200) is None
    for tag, decoder in ((256, lambda *_: None), (0, lambda *_: None), (7, None), (None, lambda *_: None)):
        with pytest.raises(ConfigError, match="tag"):
            register("mine", tag=tag, decoder=decoder)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"kind": "qsdg"}, "unknown codec 'qsdg': did you mean 'qsgd'"),
        ({"levels": 3}, "kind = None"),
        ("qsgd", "no codec: must be a table"),
        ({"kind": "qsgd", "levls": 3}, "qsgd has no 'levls': did you mean 'levels'"),
        ({"kind": "qsgd", "tag": 3}, "qsgd has no 'tag'"),
        ({"kind": "qsgd", "levels": 0}, "levels = 0, allowed are 1 to 65535"),
        ({"kind": "topk", "fraction": "x"}, "topk: "),
        ({"kind": "float32", "levels": 1}, "no settings"),
        ({"kind": "feedback"}, "feedback: .*codec"),
        ({"kind": "feedback", "codec": {"kind": "topk", "fraction": 2}}, "fraction = 2"),
        ({"kind": "feedback", "codec": 3}, "plain codec"),
    ],
)
def test_mistakes_are_named(plain: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        codec_from_plain(plain)


def test_plain_data() -> None:
    codec = ErrorFeedback(QSGD(7, 512, "max"))
    plain = codec_to_plain(codec)
    assert plain["kind"] == "feedback"
    assert plain["codec"] == {
        "kind": "qsgd", "levels": 7, "granularity": 512, "norm": "max", "rounding": "stochastic", "packing": "entropy",
    }  # fmt: skip
    assert codec_from_plain(plain) == codec
    assert codec_from_plain({"kind": "topk"}) == TopK()
    with pytest.raises(ConfigError, match="not registered"):
        codec_to_plain(object())


@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_codec_of_another_file_keeps_the_contract(check: object, rank: int) -> None:
    check(lowrank(rank))


def test_low_rank_vector_is_received_plus_residual_and_the_warm_start_helps() -> None:
    x, codec, state = layered(), lowrank(2), {}
    errors = []
    for round in range(6):
        before = state.get("residual", np.float32(0))
        sent = send(codec, x - before, state, seed=round, layout=LAYOUT)  # the same matrix in every round
        state = sent.state
        np.testing.assert_allclose(sent.received + state["residual"], sent.vector, atol=1e-6)
        errors.append(sent.error_energy)
    assert len(sent.payload) < 0.4 * 4 * ELEMENTS
    assert errors[-1] < 0.999 * errors[0]
    assert inspect(sent.payload)["codec"] == "lowrank"
    cold = send(codec, x, {}, seed=99, layout=LAYOUT)
    assert sent.error_energy < cold.error_energy


def test_the_fuzzer_takes_the_codec_in() -> None:
    report = survey(3000, seed=4)
    assert report.failed == 0, report.failures
    assert sum(tally.accepted for (codec, _), tally in report.tallies.items() if codec == "lowrank") > 20


def test_an_installed_package_adds_a_codec_by_its_entry_point(tmp_path: Path) -> None:
    """A fresh process knows the codec by its name, and decodes its payloads by their tag alone."""
    (tmp_path / "lowrank_codec.py").write_bytes(PLUGIN.read_bytes())
    package = tmp_path / "lowrank-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: lowrank\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[adagq.codecs]\nlowrank = lowrank_codec:LowRank\n")
    payload = tmp_path / "payload"
    payload.write_bytes(lowrank(2).encode(layered(), layout=LAYOUT))
    decode_it = f"import adagq.codecs as c; v = c.decode(open({str(payload)!r}, 'rb').read()); print(v.size);"
    name_it = "import adagq.codecs as c; print(c.codec_from_plain({'kind': 'lowrank', 'rank': 3}), list(c.CODECS)[-1])"
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    for code, expected in ((decode_it, f"{ELEMENTS}\n"), (name_it, "LowRank(rank=3) lowrank\n")):
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True
        )
        assert done.stdout == expected, done.stderr


def add_difference(frame: Frame, out: np.ndarray, weight: float, threads: int) -> None:
    out += np.float32(weight) * (frame.needed_reference() + frame.section(0, np.float32))


def test_a_reference_reaches_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BY_TAG", dict(registry._BY_TAG))
    monkeypatch.setattr(CODECS, "_parts", dict(CODECS._parts))
    register("difference", tag=255, decoder=add_difference)(type("Difference", (), {}))
    base, x = layered(1), layered(2)
    payload = filled(255, ELEMENTS, [x - base]).finish()
    np.testing.assert_allclose(decode(payload, reference=base), x, atol=1e-5)
    out = np.zeros(ELEMENTS, np.float32)
    decode_into(payload, out, 2.0, reference=base)
    np.testing.assert_allclose(out, 2 * x, atol=1e-5)
    with pytest.raises(PayloadError, match="reference, and there is none"):
        decode(payload)
    with pytest.raises(PayloadError, match=r"shape \(3,\)"):
        decode(payload, reference=base[:3])
