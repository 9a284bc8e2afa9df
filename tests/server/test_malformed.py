"""Replies with the wrong type in any field: that client's refusal or a number left out, never an exception."""

import json
from dataclasses import fields, replace

import pytest

from adagq.core.messages import Report, Update
from adagq.simulation.fleet import paper
from hostile import SCHEDULE, Lie, run

CLIENTS, LIAR = 6, 3
ODD = ([1.0], "x", None, True, -1, 1e400, b"", {})
LOSSES = ("loss_before", "loss_after", "loss_probe")
CASES = [(kind, field.name, value) for kind in (Report, Update) for field in fields(kind) for value in ODD]
# A loss may be below zero, and a codec without levels has no rate curve: these are no errors.
RIGHT = [("train_loss", -1), *((name, -1) for name in LOSSES)]


def identity(case) -> str:
    return repr(case) if not isinstance(case, type) else case.__name__


@pytest.mark.parametrize("exchanges", [1, 2])
@pytest.mark.parametrize(("kind", "name", "value"), CASES, ids=identity)
def test_an_odd_field_is_that_clients_own_problem(kind: type, name: str, value: object, exchanges: int) -> None:
    """Losses are asked for from the second round on; all else is looked at in every round."""

    def changed(message):
        return [replace(message, **{name: value})]

    lie = Lie(report=changed) if kind is Report else Lie(update=changed)
    schedule = replace(SCHEDULE, exchanges=exchanges)
    closed = run("adagq", lie, 3, schedule, paper(clients=CLIENTS), CLIENTS, LIAR)
    assert [one.row["round"] for one in closed] == [1, 2, 3]
    for one in closed:
        assert one.row["attempts"] == 1
        assert one.row["clients"] + one.row["refused"] == CLIENTS
        asked = name not in LOSSES or (one.row["round"] > 1 and LIAR in {line["client"] for line in one.ledger})
        kinds = {line["kind"] for line in one.incidents}
        assert {line["client"] for line in one.incidents} <= {LIAR}
        if (name, value) in RIGHT or not asked:
            assert not kinds
        else:
            assert kinds == ({"clamped"} if name in LOSSES else {"refused"})
        json.dumps((one.row, one.ledger, one.incidents), allow_nan=False)
        json.dumps(one.state.control.to_json(), allow_nan=False)
