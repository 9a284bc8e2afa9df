"""`split`: a user's own samples among the clients of a federation."""

from typing import Any

import numpy as np

from adagq.core.errors import DataError
from adagq.data.partitions import hold_out, partition

Pair = tuple[Any, Any]  # inputs and labels


def split(
    inputs: Any,
    labels: Any,
    clients: int,
    *,
    seed: int = 0,
    how: str = "iid",
    value: float | None = None,
    held_out: float = 0.1,
    samples_per_client: int | None = None,
) -> list[tuple[Pair, Pair]]:
    """Return each client's (training, held-out) samples: what `TorchPopulation` takes.

    Parameters
    ----------
    inputs, labels : arrays or tensors
        All training samples; the first axis counts them.
    clients : int
        How many shares, of equal size.
    seed : int (default: 0)
        Draws the shares.
    how : str (default: "iid")
        "iid", "sigma_d" (`value` of a client's samples are of one class), "dirichlet" (class proportions are drawn
        with alpha `value`) or "contiguous" (as the samples lie). `value` is 0.5 if not given.
    held_out : float (default: 0.1)
        Share of a client's samples that it does not train on: methods that probe need them.
    samples_per_client : int, optional
        Before holding out; by default as many as there are.

    >>> (train, held), *others = split(np.zeros((30, 2)), np.arange(30) % 3, clients=3)
    >>> train[0].shape, held[1].shape, len(others)
    ((9, 2), (1,), 2)
    """
    if len(inputs) != len(labels):
        raise DataError(f"{len(inputs)} inputs, {len(labels)} labels")
    shares = partition(how, value, np.asarray(labels), clients, seed, samples_per_client)
    found = []
    for client, share in enumerate(shares):
        learn, held = hold_out(share, held_out, len(share), seed, client)
        found.append(((inputs[learn], labels[learn]), (inputs[held], labels[held])))
    return found
