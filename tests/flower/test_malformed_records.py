"""Malformed messages as Flower records, through `records.read` and the server."""

from adagq.flower.message_fuzzing import carry
from adagq.server.message_fuzzing import run


def test_malformed_records_are_refused_or_harmless() -> None:
    report = run(1_500, seed=14, carry=carry, progress=None)
    assert report.failed == 0
    assert report.accepted.total() > 50
    assert report.refused.total() > 500
