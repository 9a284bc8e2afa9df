"""The virtual clock against hand-computed rounds."""

import math

import pytest

from adagq.codecs import Float32
from adagq.core.messages import Report, Settlement, Sync, Task, Update
from adagq.methods.table import method_of
from adagq.simulation.backend import Simulated
from adagq.simulation.clock import FRAME_BYTES, Scale, Timer
from adagq.simulation.fleet import Client, ConstantLink, Device, Fleet
from adagq.simulation.pool import Pool
from toy import ToySpec

MEGABYTE = 1_000_000
PAIR = (Float32(), Float32())


class Sized(Pool):
    """Clients that do nothing and send payloads of given sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.nbytes: dict[int, int] = {}
        self._jobs: dict[int, tuple[str, Sync | Task]] = {}

    def prepare(self, recipe, layout) -> None: ...

    def publish(self, replica) -> int:
        return next(self._numbers)

    def retire(self, model: int) -> None: ...

    def submit(self, kind: str, model: int, *arguments) -> int:
        job = next(self._numbers)
        self._jobs[job] = kind, arguments[0]
        return job

    def wait(self, jobs):
        kind, message = self._jobs[job := min(jobs)]
        if kind == "probe":
            return job, Report(message.client, 1, 100)
        payload = bytes(self.nbytes[message.client])
        return job, (Update(message.client, 1, 100, payload, b"", 0, 1.0, 0.0), {})


class Rounds:
    """Two clients: 10 s and 12 s of compute, 8 and 4 Mbit/s up, 80 Mbit/s down; 100 samples each."""

    def __init__(self, server_cores: float = 1.0, free_links: bool = False, **changes) -> None:
        fleet = Fleet(
            tuple(
                Client(Device(seconds_per_sample=s), ConstantLink(up), ConstantLink(80e6))
                for s, up in ((0.1, 8e6), (0.12, 4e6))
            ),
            server_cores=server_cores,
        )
        fleet = fleet.with_free_links() if free_links else fleet
        self.pool = Sized()
        self.backend = Simulated(self.pool, ToySpec(clients=2).build(), fleet, method_of("fedavg"), seed=1)
        defaults = {
            "fleet": fleet,
            "scale": Scale(),
            "elements": 0.0,
            "examples": [100, 100],
            "held_out": [30, 30],
            "decodes_downlink": False,
            "encodes_uplink": False,
        }
        self.backend._timer = Timer(**(defaults | changes))

    def play(self, syncs: list[Sync], nbytes: list[int], epochs: tuple[int, ...] = (1, 1)) -> Settlement:
        """One round, as a loop plays it: two exchanges if anybody is to probe."""
        self.pool.nbytes = dict(enumerate(nbytes))
        tasks = [Task(sync.client, 1, Float32(), epochs[sync.client], 0.1, 0) for sync in syncs]
        probing = any(sync.probing for sync in syncs)
        if probing:
            for sync in syncs:
                self.backend.post(sync.client, sync, None)
            for _ in syncs:
                assert self.backend.receive(math.inf).report is not None
        for sync, task in zip(syncs, tasks, strict=True):
            self.backend.post(sync.client, None if probing else sync, task)
        for _ in syncs:
            assert self.backend.receive(math.inf).update is not None
        assert self.backend.receive(math.inf) is None
        return self.backend.settle()


def sync(client: int, nbytes: int, **changes) -> Sync:
    return Sync(client, 1, 0, 0, (bytes(nbytes),), b"", **changes)


def test_a_round_is_the_slowest_clients_and_the_parts_add_up() -> None:
    syncs = [sync(0, MEGABYTE), sync(1, MEGABYTE)]
    closing = Rounds().play(syncs, [2 * MEGABYTE, 2 * MEGABYTE], epochs=(1, 2))
    first, second = closing.receipts
    assert (first.download_seconds, first.compute_seconds, first.upload_seconds) == pytest.approx((0.1, 10, 2))
    assert (second.download_seconds, second.compute_seconds, second.upload_seconds) == pytest.approx((0.1, 24, 4))
    assert closing.round_seconds == pytest.approx(28.1)
    assert first.waiting_seconds == pytest.approx(16)
    assert second.waiting_seconds == pytest.approx(0)
    for receipt in closing.receipts:
        parts = receipt.download_seconds + receipt.compute_seconds + receipt.upload_seconds
        assert parts + receipt.waiting_seconds + closing.server_seconds == pytest.approx(closing.round_seconds)


def test_half_an_epoch_takes_half_the_time_where_learners_can() -> None:
    for parts, seconds in ((True, 5.0), (False, 10.0)):
        closing = Rounds(parts=parts).play([sync(0, MEGABYTE)], [MEGABYTE], epochs=(0.5,))
        assert closing.receipts[0].compute_seconds == pytest.approx(seconds)


def test_time_goes_on_from_round_to_round() -> None:
    rounds = Rounds()
    for _ in range(2):
        rounds.play([sync(0, 0)], [MEGABYTE])
    assert rounds.backend.now == pytest.approx(22)


def test_probing_costs_forward_passes_and_holds_up_the_decision() -> None:
    # Three passes over 30 samples at a third of 0.12 s: 3.6 s; the other client does not probe.
    closing = Rounds().play([sync(0, 0), sync(1, 0, probe=PAIR)], [MEGABYTE, MEGABYTE])
    first, second = closing.receipts
    assert second.compute_seconds == pytest.approx(12 + 3.6)
    assert first.compute_seconds == pytest.approx(10)


def test_upload_waits_for_the_decision() -> None:
    # Client 1 reports after 108 s; client 0 has trained after 10 s and cannot encode before.
    closing = Rounds(held_out=[30, 900]).play([sync(0, 0), sync(1, 0, probe=PAIR)], [MEGABYTE, MEGABYTE])
    assert closing.round_seconds == pytest.approx(108 + 12 + 2)
    first = closing.receipts[0]
    busy = first.download_seconds + first.compute_seconds + first.upload_seconds
    assert busy + first.waiting_seconds == pytest.approx(122)


@pytest.mark.parametrize(
    ("cores", "server_seconds"),
    [
        # One core takes half of the device's 10 s. Payloads arrive after 31 s and 34 s: the second waits 2 s for the
        # first, then the mean is encoded.
        (1.0, 2 + 5 + 5),
        # 2.5 s each: the first is done when the second arrives.
        (2.0, 2.5 + 2.5),
        (8.0, 0.625 + 0.625),
    ],
)
def test_codecs_take_time_at_both_ends(cores: float, server_seconds: float) -> None:
    rounds = Rounds(cores, elements=2e9, encodes_uplink=True, decodes_downlink=True)
    closing = rounds.play([sync(0, 0), sync(1, 0)], [MEGABYTE, MEGABYTE])
    # 5 ns an element on the device: 10 s to decode, 10 s to encode.
    assert closing.receipts[0].compute_seconds == pytest.approx(10 + 20)
    assert closing.server_seconds == pytest.approx(server_seconds)


def test_free_links() -> None:
    closing = Rounds(free_links=True).play([sync(0, MEGABYTE)], [MEGABYTE])
    assert closing.round_seconds == pytest.approx(10)


@pytest.mark.parametrize("factor", [1.0, 7.5, 202.4])
def test_bodies_are_scaled_and_headers_are_not(factor: float) -> None:
    scale = Scale(factor)
    assert scale.link_bytes(FRAME_BYTES + 100, 1) == FRAME_BYTES + round(100 * factor)
    assert scale.link_bytes(2 * FRAME_BYTES, 2) == 2 * FRAME_BYTES
    assert scale.real_bytes(scale.link_bytes(5000, 1), 1) == pytest.approx(5000, abs=1)
    update = Update(0, 1, 1, bytes(156), b"", 0, 1, 0, (8.0 * 156,) * 16)
    assert scale.rate_bits(update)[0] / 8 == scale.update(update)
    assert math.isclose(scale.update(update), FRAME_BYTES + 100 * factor, abs_tol=1)
