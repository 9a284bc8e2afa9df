"""What each rival's row sends, in bits a parameter, against what its paper's formula says of the row's knobs."""

from math import log2

import numpy as np
import pytest

from adagq.codecs import Float32, send
from adagq.methods.table import METHODS, Method
from adagq.rounds.loops import loop_of

D = 55_000
SLACK = 0.1  # frame, scales and tables: a tenth of the smallest payload here, a hundredth of the others


def entropy(share: float) -> float:
    return -share * log2(share) - (1 - share) * log2(1 - share)


def bits(codec) -> float:
    vector = np.random.default_rng(3).standard_normal(D).astype(np.float32)
    return 8 * len(send(codec, vector, layout=[D]).payload) / D


@pytest.mark.parametrize(
    ("name", "up", "down"),
    [
        ("onebit", 1, 1),
        ("ef-signsgd", 1, 1),
        ("signsgd-vote", 1, 1),
        ("eden", 1, 1),
        ("qafel", 4, 4),
        ("qsgd-tuned", 4, None),
        ("fedpaq-tuned", 4, 32),
        ("adagq-tuned", 9, 32),
        ("fedavg-tuned", 32, 32),
        ("fedavg-fp16-tuned", 16, 16),
        ("fedbuff", 32, 32),
        ("fedsa", 32, 32),
        ("fedasync", 32, 32),
        ("cmfl", 32, None),
        # Of the entries that are kept: which ones, a sign or a value each.
        ("stc", entropy(0.04) + 0.04, entropy(0.04) + 0.04),
        ("topk-tuned", entropy(0.1) + 0.1 * 32, None),
    ],
)
def test_what_travels(name: str, up: float, down: float | None) -> None:
    row = METHODS[name]
    assert bits(row.sent_with()) == pytest.approx(up, rel=SLACK)
    if down is not None:
        assert bits(row.downlink) == pytest.approx(down, rel=SLACK)


@pytest.mark.parametrize(("name", "arrivals", "rate"), [("fedbuff", 5, 1.0), ("qafel", 5, 1.0), ("fedasync", 1, 0.6)])
def test_loops_of_the_rows(name: str, arrivals: int, rate: float) -> None:
    loop = loop_of(METHODS[name])
    assert (loop.arrivals, loop.rate, loop.discount(3)) == (arrivals, rate, rate / 2)


def test_tuned_rows_are_the_published_ones_but_for_their_knobs() -> None:
    """The paper's own rows stay as published: `adagq reproduce` runs them."""
    for name in ("fedavg", "fedavg-fp16", "qsgd", "topk", "fedpaq", "adagq"):
        published, tuned = METHODS[name], METHODS[f"{name}-tuned"]
        assert type(tuned.uplink) is type(published.uplink)
        assert tuned.controller == published.controller
        assert (tuned.residual, tuned.loop, tuned.optimizer) == (
            published.residual,
            published.loop,
            published.optimizer,
        )


def test_the_references_are_uncompressed() -> None:
    row: Method = METHODS["ideal"]
    assert isinstance(row.uplink, Float32)
    assert row.free_links
