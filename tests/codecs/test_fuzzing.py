"""A hundred thousand damaged payloads: only `PayloadError` comes out, or finite numbers of the claimed count."""

import numpy as np
import pytest

from adagq.codecs import decode, fuzzing
from adagq.codecs.registry import entries
from adagq.core.errors import PayloadError

PAYLOADS = 110_000


@pytest.fixture(scope="module")
def report() -> fuzzing.FuzzReport:
    return fuzzing.run(PAYLOADS, seed=20, progress=print)


def test_only_payload_errors_come_out(report: fuzzing.FuzzReport) -> None:
    assert report.failed == 0
    assert report.accepted + report.refused == PAYLOADS
    assert report.slowest_seconds < 5.0


def test_every_codec_meets_every_mutation_and_forgeries_reach_the_decoders(report: fuzzing.FuzzReport) -> None:
    codecs = {entry.kind for entry in entries() if entry.tag}
    assert set(report.tallies) == {(codec, mutation) for codec in codecs for mutation in fuzzing.MUTATIONS}
    for (codec, mutation), tally in report.tallies.items():
        assert tally.accepted + tally.refused > 50, (codec, mutation)
    for mutation in ("forged bits", "forged bytes", "forged knobs", "forged section", "forged numbers"):
        # A frame of an update that is held back has no numbers: forging any is refused.
        reached = codecs - {"withheld"} if mutation == "forged numbers" else codecs
        assert all(report.tallies[codec, mutation].accepted for codec in reached), mutation


def test_same_seed_same_report() -> None:
    one, two, other = (fuzzing.survey(500, seed) for seed in (1, 1, 2))
    assert one.tallies == two.tallies
    assert one.tallies != other.tallies


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda v: np.full_like(v, np.nan), "not finite"),
        (lambda v: v[:-1], "elements"),
        (lambda v: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_faults_are_found(monkeypatch: pytest.MonkeyPatch, fault: object, message: str) -> None:
    monkeypatch.setattr(fuzzing, "decode", lambda payload, most: fault(decode(payload, most)))
    printed: list[str] = []
    with pytest.raises(fuzzing.FuzzError, match=message):
        fuzzing.run(300, 0, printed.append)
    assert "failed" in printed[0]


def test_a_changed_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def half_done(payload: bytes, out: np.ndarray, weight: float) -> None:
        out[:1] = 9.0
        raise PayloadError("too late")

    monkeypatch.setattr(fuzzing, "decode_into", half_done)
    assert any("left out changed" in failure for failure in fuzzing.survey(200, 0).failures)
