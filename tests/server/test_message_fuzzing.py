"""Malformed messages: each is that client's refusal or harmless; and the campaign finds what it is made to find."""

import pytest

from adagq.core.messages import Update
from adagq.server import message_fuzzing
from adagq.server.message_fuzzing import MessageFuzzError, run, survey
from adagq.server.validation import Validator


def test_malformed_messages_are_refused_or_harmless() -> None:
    report = run(2_000, seed=13, progress=None)
    assert report.failed == 0
    assert report.accepted.total() + report.refused.total() == 2_000
    assert report.accepted.total() > 200  # they reach the intake
    assert {f"update.{name}" for name in Update.__dataclass_fields__} <= report.accepted.keys() | report.refused.keys()


def test_same_seed_same_campaign() -> None:
    one, two, other = (survey(150, seed) for seed in (1, 1, 2))
    assert (one.accepted, one.refused) == (two.accepted, two.refused)
    assert (one.accepted, one.refused) != (other.accepted, other.refused)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", "raised TypeError"),
        ("believes", "raised|cannot be|norm|do not count"),
        ("unbounded", "a mean of norm"),
        ("logs", "no line of text"),
    ],
)
def test_a_fault_in_the_server_is_found(fault: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "raises":
        monkeypatch.setattr(Validator, "_wrong_update", lambda self, update: len(update.energy) and None)
        monkeypatch.setattr(Validator, "update", lambda self, sender, update: self._wrong_update(update))
    elif fault == "believes":
        monkeypatch.setattr(Validator, "update", lambda self, sender, update: update)
    elif fault == "unbounded":
        monkeypatch.setattr(message_fuzzing, "FARTHEST", 0.01)
    else:
        monkeypatch.setattr("adagq.server.validation.printable", lambda text: text + "\n")
    with pytest.raises(MessageFuzzError, match=message):
        run(60, progress=None)
