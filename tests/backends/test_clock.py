"""The virtual clock against hand-computed rounds."""

import math

import pytest

from adagq.backends.clock import FRAME_BYTES, Clock, Scale
from adagq.codecs import Float32
from adagq.fleet import Client, ConstantLink, Device, Fleet
from adagq.messages import Sync, Task, Update

MEGABYTE = 1_000_000


def clock(server_cores: float = 1.0, **changes) -> Clock:
    """Two clients: 10 s and 12 s of compute, 8 and 4 Mbit/s up, 80 Mbit/s down; 100 samples each."""
    fleet = Fleet(
        tuple(
            Client(Device(seconds_per_sample=s), ConstantLink(up), ConstantLink(80e6))
            for s, up in ((0.1, 8e6), (0.12, 4e6))
        ),
        server_cores=server_cores,
    )
    defaults = {
        "fleet": fleet,
        "scale": Scale(),
        "elements": 0.0,
        "held_out": [30, 30],
        "decodes_downlink": False,
        "encodes_uplink": False,
    }
    return Clock(**(defaults | changes))


def sync(client: int, nbytes: int, **changes) -> Sync:
    return Sync(client, 1, 1, 0, (bytes(nbytes),), b"", **changes)


def send(timer: Clock, client: int, nbytes: int, epochs: int = 1) -> None:
    task = Task(client, 1, Float32(), epochs, 0.1, 0)
    timer.arrived(task, Update(client, 1, 100, bytes(nbytes), b"", 0, 1.0, 0.0))


def test_a_round_is_the_slowest_clients_and_the_parts_add_up() -> None:
    timer = clock()
    timer.begin([sync(0, MEGABYTE), sync(1, MEGABYTE)])
    send(timer, 0, 2 * MEGABYTE)
    send(timer, 1, 2 * MEGABYTE, epochs=2)
    closing = timer.close()
    first, second = closing.receipts
    assert (first.download_seconds, first.compute_seconds, first.upload_seconds) == pytest.approx((0.1, 10, 2))
    assert (second.download_seconds, second.compute_seconds, second.upload_seconds) == pytest.approx((0.1, 24, 4))
    assert closing.round_seconds == pytest.approx(28.1)
    assert first.waiting_seconds == pytest.approx(16)
    assert second.waiting_seconds == pytest.approx(0)
    for receipt in closing.receipts:
        parts = receipt.download_seconds + receipt.compute_seconds + receipt.upload_seconds
        assert parts + receipt.waiting_seconds + closing.server_seconds == pytest.approx(closing.round_seconds)


def test_time_goes_on_from_round_to_round() -> None:
    timer = clock()
    for _ in range(2):
        timer.begin([sync(0, 0)])
        send(timer, 0, MEGABYTE)
        timer.close()
    assert timer.now == pytest.approx(22)


def test_probing_costs_forward_passes_and_holds_up_the_decision() -> None:
    timer = clock()
    # Three passes over 30 samples at a third of 0.12 s: 3.6 s; the other client does not probe.
    timer.begin([sync(0, 0), sync(1, 0, probe_codec=Float32(), probe_levels=(3, 1))])
    send(timer, 0, MEGABYTE)
    send(timer, 1, MEGABYTE)
    first, second = timer.close().receipts
    assert second.compute_seconds == pytest.approx(12 + 3.6)
    assert first.compute_seconds == pytest.approx(10)


def test_upload_waits_for_the_decision() -> None:
    timer = clock(held_out=[30, 900])
    # Client 1 reports after 108 s; client 0 has trained after 10 s and cannot encode before.
    timer.begin([sync(0, 0), sync(1, 0, probe_codec=Float32(), probe_levels=(3, 1))])
    send(timer, 0, MEGABYTE)
    send(timer, 1, MEGABYTE)
    closing = timer.close()
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
    timer = clock(cores, elements=2e9, encodes_uplink=True, decodes_downlink=True)
    timer.begin([sync(0, 0), sync(1, 0)])
    send(timer, 0, MEGABYTE)
    send(timer, 1, MEGABYTE)
    closing = timer.close()
    # 5 ns an element on the device: 10 s to decode, 10 s to encode.
    assert closing.receipts[0].compute_seconds == pytest.approx(10 + 20)
    assert closing.server_seconds == pytest.approx(server_seconds)


def test_free_links() -> None:
    timer = clock()
    timer.fleet = timer.fleet.with_free_links()
    timer.begin([sync(0, MEGABYTE)])
    send(timer, 0, MEGABYTE)
    assert timer.close().round_seconds == pytest.approx(10)


@pytest.mark.parametrize("factor", [1.0, 7.5, 202.4])
def test_bodies_are_scaled_and_headers_are_not(factor: float) -> None:
    scale = Scale(factor)
    assert scale.link_bytes(FRAME_BYTES + 100, 1) == FRAME_BYTES + round(100 * factor)
    assert scale.link_bytes(2 * FRAME_BYTES, 2) == 2 * FRAME_BYTES
    assert scale.real_bytes(scale.link_bytes(5000, 1), 1) == pytest.approx(5000, abs=1)
    update = Update(0, 1, 1, bytes(156), b"", 0, 1, 0, (8.0 * 156,) * 16)
    assert scale.rate_bits(update)[0] / 8 == scale.update(update)
    assert math.isclose(scale.update(update), FRAME_BYTES + 100 * factor, abs_tol=1)
