"""Warns of links on which one transfer of the model takes more than a day."""

from adagq.simulation.fleet.fleets import Fleet

TOO_LONG_SECONDS = 86_400.0  # of one transfer of the whole model
LOOKED_AT = 1000  # clients, evenly spread over the fleet


def slow_link(fleet: Fleet, model_bytes: float) -> str:
    """Return which client needs more than a day for one transfer of the model; empty if none does.

    >>> from adagq.simulation.fleet import build, paper
    >>> slow_link(build(paper(), seed=0), 44.7e6)
    ''
    >>> print(slow_link(build(paper(uplink_mbps=1e-6 * 120, clients=2), seed=0), 44.7e6))
    client 0 needs 34.5 days to send the model once (44.7 MB uncompressed): a typing error? Rates of a fleet are Mbit/s
    """
    for index in range(0, len(fleet), -(-len(fleet) // LOOKED_AT)):  # a crowd's clients are made when asked for
        client = fleet.clients[index]
        for word, link in (("send", client.uplink), ("receive", client.downlink)):
            seconds = link.seconds(model_bytes)
            if seconds > TOO_LONG_SECONDS:
                return (
                    f"client {index} needs {seconds / 86_400.0:.3g} days to {word} the model once "
                    f"({model_bytes / 1e6:.3g} MB uncompressed): a typing error? Rates of a fleet are Mbit/s"
                )
    return ""
