"""What a client sends: its update, measured by decoding its own payload."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from test_feedback import Noisy

from adagq.client.replica import Replica
from adagq.client.work import probe, work
from adagq.codecs import QSGD, ErrorFeedback, Float32, decode
from adagq.core.errors import NonFiniteError
from adagq.core.messages import Sync, Task
from adagq.core.seeds import derive
from toy import LAYOUT, ToySpec


@dataclass(frozen=True)
class Levelled(Noisy):
    """A noisy codec with levels, and a record of the budget that it was fitted to."""

    nmse: float = 0.0
    levels: int = 1

    def encode(self, vector, seed=0, layout=None, threads=1):
        return replace(Noisy(1 / self.levels), nmse=1 / self.levels).encode(vector, seed)

    def fitted(self, vector, budget_bytes, layout):
        return replace(self, levels=budget_bytes)

    def with_levels(self, levels):
        return replace(self, levels=levels)


POPULATION = ToySpec(clients=3).build()
START = Replica.first(0, *POPULATION.initial(1))
PAIR = (Levelled(levels=10), Levelled(levels=1))
TASK = Task(client=2, round=4, codec=Float32(), epochs=2, learning_rate=0.1, seed=9)


def moved() -> Replica:
    aggregate = np.full(LAYOUT.elements, 0.01, np.float32)
    return Replica(1, START.vector - aggregate, START.buffers, aggregate, START.vector, START.buffers)


def asking(**what) -> Sync:
    return Sync(client=2, round=4, version=1, base_version=0, payloads=(b"x",), buffers=b"", seed=9, **what)


def test_update_is_what_training_took_away() -> None:
    update, state = work(POPULATION.learner(2), START, TASK, {})
    learner = POPULATION.learner(2)
    learner.load(START.vector, START.buffers)
    learner.train(2, 0.1, derive(9, "train", 4, 2))
    np.testing.assert_array_equal(decode(update.payload), START.vector - learner.vector)
    assert state == {}  # a plain codec keeps nothing
    assert update.examples == 102
    np.testing.assert_array_equal(decode(update.buffers), START.buffers + 1)
    assert update.error_energy == 0
    assert update.energy == pytest.approx(float(np.sum(np.square(decode(update.payload)))), rel=1e-5)
    assert update.rate_bits == ()
    assert work(POPULATION.learner(2), START, TASK, {})[0] == update
    assert update.version == START.version


def test_a_learner_of_whole_epochs_rounds_a_part_up_and_says_so() -> None:
    whole = work(POPULATION.learner(2), START, replace(TASK, epochs=1.0), {})[0]
    part = work(POPULATION.learner(2), START, replace(TASK, epochs=0.5), {})[0]
    assert (part.payload, part.least_epochs) == (whole.payload, 1.0)
    asked: list[float] = []

    class Parts(type(POPULATION.learner(2))):  # type: ignore[misc]
        least_epochs = 0.25

        def train(self, epochs: float, learning_rate: float, seed: int) -> float:
            asked.append(epochs)
            return super().train(1, learning_rate, seed)

    learner = Parts(*vars(POPULATION.learner(2)).values())
    assert work(learner, START, replace(TASK, epochs=0.5), {})[0].least_epochs == 0.25
    work(learner, START, replace(TASK, epochs=2.0), {})
    assert asked == [0.5, 2]
    assert isinstance(asked[1], int)  # range(epochs) works in a learner of one's own


def test_seed_round_and_client_decide_the_draws() -> None:
    first = work(POPULATION.learner(2), START, TASK, {})[0].payload
    for other in (replace(TASK, seed=10), replace(TASK, round=5), replace(TASK, client=1)):
        assert work(POPULATION.learner(2), START, other, {})[0].payload != first


def test_error_is_measured_on_the_payload() -> None:
    update, _ = work(POPULATION.learner(2), START, replace(TASK, codec=Noisy(0.5)), {})
    assert update.error_energy == pytest.approx(0.5 * update.energy, rel=1e-3)


@pytest.mark.parametrize("codec", [Float32(), Noisy(0.5), Noisy(8.0)])
def test_original_is_sent_plus_residual(codec) -> None:
    plain = decode(work(POPULATION.learner(2), START, TASK, {})[0].payload)
    task = replace(TASK, codec=ErrorFeedback(codec))
    update, state = work(POPULATION.learner(2), START, task, {})
    again, later = work(POPULATION.learner(2), START, task, state)
    residual, rest = (kept.get("residual", np.zeros_like(plain)) for kept in (state, later))
    np.testing.assert_allclose(decode(update.payload) + residual, plain, atol=1e-6)
    np.testing.assert_allclose(decode(again.payload) + rest, plain + residual, atol=1e-6)


def test_codec_is_fitted_to_what_the_buffers_leave_of_the_budget() -> None:
    update, _ = work(POPULATION.learner(2), START, replace(TASK, codec=Levelled(), budget_bytes=500), {})
    assert update.levels == 500 - len(update.buffers)


def test_rate_curve_comes_when_asked_for() -> None:
    assert len(work(POPULATION.learner(2), START, replace(TASK, rate_curve=True), {})[0].rate_bits) == 16


def test_diverged_training_sends_nothing() -> None:
    with pytest.raises(NonFiniteError):
        work(ToySpec(clients=3, broken=2).build().learner(2), START, TASK, {})


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("codec", [Float32(), ErrorFeedback(Float32()), QSGD(levels=15)])
def test_an_update_whose_square_is_not_finite_counts_as_diverged(codec) -> None:
    """Every number is finite, but no server may use it: 0.1 sent it, to be refused."""
    learner = POPULATION.learner(2)
    learner.offset = np.float32(1e25)
    with pytest.raises(NonFiniteError, match="client 2: an update of energy inf"):
        work(learner, START, replace(TASK, codec=codec), {})


def test_probe_evaluates_before_after_and_lower_levels() -> None:
    learner, copy = POPULATION.learner(2), moved()
    report = probe(learner, copy, asking(probe=(Levelled(levels=10**9), Levelled(levels=1))))
    learner.load(copy.previous, copy.buffers)
    assert report.loss_before == learner.loss()
    learner.load(copy.vector, copy.buffers)
    assert report.loss_after == pytest.approx(learner.loss(), rel=1e-4)
    assert report.loss_probe != report.loss_after


@pytest.mark.parametrize(
    "sync", [asking(), replace(asking(probe=PAIR), base_version=-1), replace(asking(probe=PAIR), payloads=())]
)
def test_nothing_is_evaluated_when_nothing_can_be(sync: Sync) -> None:
    """Without a question, after a whole model, or for a client that was up to date."""
    report = probe(POPULATION.learner(2), moved(), sync)
    assert report.examples == 102
    assert all(map(np.isnan, (report.loss_before, report.loss_after, report.loss_probe)))
