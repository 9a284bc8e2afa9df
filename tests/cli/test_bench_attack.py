"""`adagq bench attack`: a table with every aggregate, and poisoners that do what they are said to do."""

from adagq.benchmarks.attack import ATTACKS, run
from adagq.server.robust import FOR_ANY_ROW


def test_the_table_has_every_attack_under_every_aggregate() -> None:
    printed: list[str] = []
    lines = run("qsgd", rounds=3, poisoners=(1,), settings=["task.clients=5"], progress=printed.append)
    assert lines[0] == ["attack", "poisoners", *FOR_ANY_ROW]
    assert [line[0] for line in lines[1:]] == ["none, mlp", "scale", "flip", "weight", "none, mlp_bn", "buffers"]
    assert {line[0] for line in lines} > set(ATTACKS)
    scores = {line[0]: [float(score) for score in line[2:]] for line in lines[1:]}
    assert all(0.0 <= score <= 100.0 for line in scores.values() for score in line)
    honest, flipped = scores["none, mlp"], scores["weight"]
    assert flipped[0] < honest[0]  # the mean believes examples, up to its bound
    assert len(printed) == len(lines) + 2
