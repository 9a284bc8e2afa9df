"""Whole rounds with a liar among twenty: every aggregate, exclusion, and resuming with both."""

from dataclasses import replace

import numpy as np
import pytest

from adagq.codecs import Float32, decode
from adagq.core.messages import Update
from hostile import CLIENTS, LAYOUT, LIAR, SCHEDULE, Lie, run


def scaled(update: Update) -> list[Update]:
    vector = decode(update.payload) if update.payload else np.zeros(0, np.float32)
    return [replace(update, payload=Float32().encode(np.float32(1e4) * vector))]


def garbage(update: Update) -> list[Update]:
    return [replace(update, payload=b"garbage")]


@pytest.mark.parametrize("aggregate", ["clipped", "trimmed-mean", "median", "krum"])
@pytest.mark.parametrize("method", ["fedavg", "adagq-fit"])
def test_rounds_with_every_aggregate_learn_what_the_mean_learns(aggregate: str, method: str) -> None:
    honest = run(method, Lie(), 6)[-1].row
    robust = run(method, Lie(), 6, replace(SCHEDULE, aggregate=aggregate))[-1].row
    assert robust["clients"] == CLIENTS
    assert robust["loss"] < 1.5 * honest["loss"] + 0.05


@pytest.mark.parametrize("aggregate", ["clipped", "trimmed-mean", "median", "krum"])
def test_an_update_times_ten_thousand_changes_little(aggregate: str) -> None:
    schedule = replace(SCHEDULE, aggregate=aggregate, norm_bound=0.0)  # the rule alone
    honest = run("fedavg", Lie(), 5, schedule)[-1].row
    attacked = run("fedavg", Lie(update=scaled), 5, schedule)[-1].row
    assert attacked["loss"] < 1.3 * honest["loss"] + 0.02


@pytest.mark.parametrize("aggregate", ["trimmed-mean", "median", "krum"])
def test_one_client_s_buffers_do_not_move_the_model_s(aggregate: str) -> None:
    def poisoned(update: Update) -> list[Update]:
        return [replace(update, buffers=Float32().encode(np.full(LAYOUT.buffer_elements, 1e6, np.float32)))]

    schedule = replace(SCHEDULE, aggregate=aggregate)
    honest, attacked = (run("fedavg", lie, 3, schedule)[-1].state for lie in (Lie(), Lie(update=poisoned)))
    np.testing.assert_allclose(attacked.model.buffers, honest.model.buffers, rtol=1e-5)


def test_a_client_that_sends_garbage_is_left_out_and_tried_again() -> None:
    results = run("fedavg", Lie(update=garbage), 16, replace(SCHEDULE, exclude_after=3))
    clients = [result.row["clients"] for result in results]
    refused = [result.row["refused"] for result in results]
    assert clients == [CLIENTS - 1] * 16
    assert refused == [1] * 3 + [0] * 10 + [1] + [0] * 2
    said = [line for result in results for line in result.incidents if line["kind"] == "excluded"]
    assert [(line["client"], line["round"]) for line in said] == [(LIAR, 3), (LIAR, 14)]
    assert "left out for 10 rounds" in said[0]["reason"]
    assert "left out for 20 rounds" in said[1]["reason"]


def test_without_the_option_nobody_is_left_out() -> None:
    results = run("fedavg", Lie(update=garbage), 8)
    assert [result.row["refused"] for result in results] == [1] * 8


def test_a_loop_without_a_barrier_leaves_out_repeat_offenders_too() -> None:
    schedule = replace(SCHEDULE, exclude_after=2)
    results = run("fedbuff", Lie(update=garbage), 24, schedule)
    refused = [result.row["round"] for result in results if result.row["refused"]]
    excluded = [line["round"] for result in results for line in result.incidents if line["kind"] == "excluded"]
    assert excluded[0] == refused[1]
    assert all(not excluded[0] < round <= excluded[0] + 10 for round in refused)
    assert any(round > excluded[0] + 10 for round in refused)  # tried again


@pytest.mark.parametrize("aggregate", ["clipped", "trimmed-mean", "median", "krum"])
def test_a_loop_without_a_barrier_takes_every_aggregate(aggregate: str) -> None:
    schedule = replace(SCHEDULE, aggregate=aggregate, norm_bound=0.0)
    honest = run("fedbuff", Lie(), 8, schedule)[-1].row
    attacked = run("fedbuff", Lie(update=scaled), 8, schedule)[-1].row
    assert attacked["loss"] < 1.5 * honest["loss"] + 0.05


def test_one_participant_a_round_and_a_garbage_sender_among_them_do_not_end_the_run() -> None:
    results = run("fedavg", Lie(update=garbage), 40, replace(SCHEDULE, participants=1))
    assert [result.row["round"] for result in results] == list(range(1, 41))
    attempts = [result.row["attempts"] for result in results]
    assert max(attempts) > 1  # the liar was drawn, and the round was tried again with another client
