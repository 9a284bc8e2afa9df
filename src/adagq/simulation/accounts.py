"""What a round is charged for: receipts of what arrived, exchanges, and the server's own seconds."""

from collections.abc import Mapping
from dataclasses import replace

from adagq.core.messages import Receipt, Settlement
from adagq.simulation.clock import Timer, Visit


class Accounts:
    """Everything since the last settlement."""

    def __init__(self) -> None:
        self.settled = 0.0  # the second of the last settlement
        self._exchanges = 0  # messages that a client is sent one after the other
        self._edge_bytes: dict[int, int] = {}
        self._receipts: dict[int, tuple[float, Receipt]] = {}  # with their arrivals

    def exchange(self, number: int) -> None:
        """Note that a client was sent its first or second message of this round."""
        self._exchanges = max(self._exchanges, number)

    def edges_sent(self, nbytes: Mapping[int, int]) -> None:
        self._edge_bytes = dict(nbytes)

    def receive(self, client: int, seconds: float, receipt: Receipt) -> None:
        self._receipts[client] = seconds, receipt

    def settle(self, timer: Timer, now: float, visits: Mapping[int, Visit]) -> Settlement:
        """Close the accounts at the second `now`; the settlement's end is the next one's beginning."""
        arrivals = {client: seconds for client, (seconds, _) in self._receipts.items()}
        if self._edge_bytes:
            working = timer.edge_seconds(arrivals, self._edge_bytes, now)
        else:
            working = timer.server_seconds(list(arrivals.values()), now)
        # As on real nodes: the fixed cost of exchanges is nobody's to shorten, and counts as the server's.
        server_seconds = working + self._exchanges * timer.fleet.exchange_seconds
        begun, self.settled = self.settled, now + server_seconds
        receipts = tuple(
            replace(receipt, waiting_seconds=max(now - visits[client].posted - receipt.busy_seconds, 0.0))
            for client, (_, receipt) in sorted(self._receipts.items())
        )
        self._exchanges, self._edge_bytes = 0, {}
        self._receipts.clear()
        return Settlement(receipts, self.settled - begun, server_seconds)
