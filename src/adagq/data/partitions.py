"""Who gets which samples, drawn without replacement: shares of equal size, or of sizes that differ.

    sigma_d(labels, clients, 0.5, seed)    half of client i's samples are of class i mod classes, the rest is
                                           uniform over the other classes (the paper's non-IID degree)
    dirichlet(labels, clients, 0.5, seed)  client i's class proportions ~ Dirichlet(alpha) (Hsu et al. 2019)
    iid(labels, clients, seed)             a shuffle, cut
    contiguous(labels, clients)            a cut: client i has the i-th part, as the samples lie
    natural(owners, clients)               client i has the samples of user i of data that know their users

The first two need one label a sample. Data with a label a token (text) are cut by `iid` or `contiguous`.

Each returns `Shares`: one array of sample indices per client, made when it is asked for. `samples_per_client` sets the
size of a share; without it the share is the largest that the split allows, which for `sigma_d` may leave samples over
where classes are unequal. With `spread` sizes are log-normal around their mean (`iid` and `dirichlet`). `hold_out` then
splits a share into training and held-out samples.
"""

import numpy as np
from numpy.typing import NDArray

from adagq.core.errors import ConfigError, DataError
from adagq.core.seeds import generator
from adagq.data.lazy_shares import Cut, Dealt, Indices, Shares, spread_sizes

BY_LABEL = ("sigma_d", "dirichlet")
SPREADS = ("dirichlet", "iid")
NATURAL = "natural"
PARTITIONS = (*BY_LABEL, "iid", "contiguous", NATURAL)


def partition(
    kind: str,
    value: float | None,
    labels: Indices,
    clients: int,
    seed: int,
    samples_per_client: int | None = None,
    spread: float = 0.0,
    owners: Indices | None = None,
) -> Shares:
    """Split by name; `value` is sigma_d's degree or Dirichlet's alpha (0.5 if None); the others have none."""
    if kind in BY_LABEL and labels.ndim != 1:
        raise ConfigError(
            f"partition: {kind!r} needs one label a sample, these data have one a token; allowed: iid, contiguous"
        )
    if spread and kind not in SPREADS:
        raise ConfigError(f"size_spread = {spread:g}: {kind} has shares of its own size; allowed: {', '.join(SPREADS)}")
    if kind == "sigma_d":
        return sigma_d(labels, clients, 0.5 if value is None else value, seed, samples_per_client)
    if kind == "dirichlet":
        return dirichlet(labels, clients, 0.5 if value is None else value, seed, samples_per_client, spread)
    if kind == "iid":
        return iid(labels, clients, seed, samples_per_client, spread)
    if kind == "contiguous":
        return contiguous(labels, clients, samples_per_client)
    if kind == NATURAL:
        return natural(owners, clients, samples_per_client)
    raise ConfigError(f"partition: {kind!r} is unknown; allowed: {', '.join(PARTITIONS)}")


def contiguous(labels: Indices, clients: int, samples_per_client: int | None = None) -> Shares:
    """Cut the samples into equal parts as they lie; a client with fewer than its part has the beginning of it."""
    share = _share(len(labels), clients, samples_per_client)
    part = len(labels) // clients
    return Cut(None, np.arange(clients) * part, np.full(clients, share))


def iid(labels: Indices, clients: int, seed: int, samples_per_client: int | None = None, spread: float = 0.0) -> Shares:
    """Cut a shuffle of the samples into parts."""
    share = _share(len(labels), clients, samples_per_client)
    order = generator(seed, "partition").permutation(len(labels))
    sizes = spread_sizes(clients, share, spread, seed)
    return Cut(order, sizes.cumsum() - sizes, sizes)


def natural(owners: Indices | None, clients: int, samples_per_client: int | None = None) -> Shares:
    """Give client i the samples of user i, in their order, at most `samples_per_client` of them."""
    if owners is None:
        raise ConfigError(f"partition: {NATURAL!r} is for data that know their users, such as users and shakespeare")
    sizes = np.bincount(owners)
    if sizes.size < clients:
        raise DataError(f"{clients} clients: the data have {sizes.size} users")
    starts = (sizes.cumsum() - sizes)[:clients]
    most = len(owners) if samples_per_client is None else samples_per_client
    return Cut(np.argsort(owners, kind="stable"), starts, np.minimum(sizes[:clients], most))


def dirichlet(
    labels: Indices,
    clients: int,
    alpha: float,
    seed: int,
    samples_per_client: int | None = None,
    spread: float = 0.0,
) -> Shares:
    """Draw each client's class proportions from Dirichlet(alpha), then its samples from what is left.

    When a class runs out, the proportions of the others stand in for it; clients choose in random order.
    """
    if not 0 < alpha < np.inf:
        raise ConfigError(f"dirichlet: alpha is {alpha}, it must be a positive number")
    share = _share(len(labels), clients, samples_per_client)
    sizes = spread_sizes(clients, share, spread, seed).tolist()
    source = generator(seed, "partition")
    left = np.bincount(labels)
    counts = np.zeros((clients, left.size), np.int64)
    proportions = source.dirichlet(np.full(left.size, alpha), size=clients)
    for client in source.permutation(clients):
        while (wanted := sizes[client] - int(counts[client].sum())) > 0:
            # The tiny floor keeps a sum above zero when alpha is small and the drawn classes are used up.
            weights = np.where(left > 0, proportions[client] + 1e-12, 0.0)
            drawn = np.minimum(source.multinomial(wanted, weights / weights.sum()), left)
            counts[client] += drawn
            left -= drawn
    return Dealt.of(labels, counts, seed)


def sigma_d(labels: Indices, clients: int, degree: float, seed: int, samples_per_client: int | None = None) -> Shares:
    """Give each client `degree` of its share in class (client mod classes), the rest evenly in the others."""
    if not 0 <= degree <= 1:
        raise ConfigError(f"sigma_d: {degree} is not a fraction from 0 to 1")
    supply = np.bincount(labels)
    if supply.size < 2:
        raise DataError(f"sigma_d needs at least 2 classes, the labels have {supply.size}")
    share = _share(len(labels), clients, samples_per_client)
    counts = _sigma_d_counts(supply, clients, degree, share)
    if counts is None:
        largest = _largest_share(supply, clients, degree, share)
        if samples_per_client is not None or largest is None:
            raise DataError(
                f"sigma_d {degree}: {clients} clients x {share} samples cannot be had from classes of "
                f"{supply.min()} to {supply.max()} samples"
                + (f"; at most {largest[0]} samples per client" if largest else "")
            )
        counts = largest[1]
    return Dealt.of(labels, counts, seed)


def _largest_share(supply: Indices, clients: int, degree: float, too_many: int) -> tuple[int, NDArray[np.int64]] | None:
    """Return the largest share that the classes can serve, with its counts (by bisection)."""
    low, high, best = 1, too_many - 1, None
    while low <= high:
        middle = (low + high) // 2
        counts = _sigma_d_counts(supply, clients, degree, middle)
        if counts is None:
            high = middle - 1
        else:
            best, low = (middle, counts), middle + 1
    return best


def _sigma_d_counts(supply: Indices, clients: int, degree: float, share: int) -> NDArray[np.int64] | None:
    """Return samples per client and class, or None if some class has too few."""
    classes = supply.size
    main = np.arange(clients) % classes
    of_main = round(degree * share)
    even, extra = divmod(share - of_main, classes - 1)
    counts = np.full((clients, classes), even, np.int64)
    counts[np.arange(clients), main] = of_main
    left = supply - counts.sum(0)
    extras = np.zeros((clients, classes), bool)
    if extra:
        # What does not divide goes to the classes that have most left: it keeps every class in balance.
        for client in range(clients):
            choice = left.astype(np.float64)
            choice[main[client]] = -np.inf
            fullest = np.argsort(-choice, kind="stable")[:extra]
            extras[client, fullest] = True
            left[fullest] -= 1
        _repair(extras, main, left)
    return counts + extras if left.min() >= 0 else None


def _repair(extras: NDArray[np.bool_], main: Indices, left: Indices) -> None:
    """Move extras from classes that ran short to classes that have some left, as far as that is possible.

    A client's own class is closed to it, so a move may need several clients: an augmenting path over classes.
    """
    classes = left.size
    while left.min() < 0:
        free = ~extras
        free[np.arange(len(main)), main] = False
        movable = extras.T.astype(np.int64) @ free.astype(np.int64) > 0
        parent = np.where(left < 0, np.arange(classes), -1)
        queue = list(np.flatnonzero(left < 0))
        for source in queue:
            for target in np.flatnonzero(movable[source] & (parent < 0)):
                parent[target] = source
                queue.append(target)
        # The queue is in order of distance; only a shortest path never uses a client twice.
        reached = [label for label in queue if left[label] > 0]
        if not reached:
            return
        target = reached[0]
        left[target] -= 1
        while parent[target] != target:
            source = parent[target]
            client = np.flatnonzero(extras[:, source] & free[:, target])[0]
            extras[client, source], extras[client, target] = False, True
            target = source
        left[target] += 1


def _share(samples: int, clients: int, samples_per_client: int | None) -> int:
    if clients < 1:
        raise ConfigError(f"clients: {clients} is below 1")
    if samples_per_client is not None and samples_per_client < 1:
        raise ConfigError(f"samples_per_client: {samples_per_client} is below 1")
    share = samples // clients if samples_per_client is None else samples_per_client
    if share < 1 or share * clients > samples:
        raise DataError(
            f"{clients} clients x {max(share, 1)} samples need {clients * max(share, 1)} training samples, "
            f"the data set has {samples}"
        )
    return share


def hold_out(indices: Indices, fraction: float, limit: int, seed: int, client: int) -> tuple[Indices, Indices]:
    """Return (training, held-out) samples of one client; `fraction` is held out, 1 to `limit` samples."""
    if not 0 < fraction < 1:
        raise ConfigError(f"held_out: {fraction} is not a fraction between 0 and 1")
    if limit < 1:
        raise ConfigError(f"probe_samples: {limit} is below 1")
    if len(indices) < 2:
        raise DataError(f"client {client} has {len(indices)} samples: too few to hold one out and train on another")
    held = int(held_out_sizes(np.array([len(indices)]), fraction, limit)[0])
    order = generator(seed, "held out", client).permutation(indices)
    return order[held:], order[:held]


def held_out_sizes(sizes: Indices, fraction: float, limit: int) -> Indices:
    """Return how many samples of shares of these sizes `hold_out` holds out."""
    wanted = np.rint(fraction * sizes).astype(np.int64)
    held: Indices = np.minimum(np.minimum(np.maximum(1, wanted), limit), sizes - 1)
    return held
