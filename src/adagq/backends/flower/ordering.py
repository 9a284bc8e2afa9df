"""Answers in client order, for as long as that does not hold back much.

A sum of floats depends on its order. Handed on by client number it does not depend on who was faster; but payloads that
wait for their turn are held in memory, so past a bound whoever is there goes first.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from adagq.messages import Report, Update

HELD_BYTES: Final = 256 * 2**20
Answer = tuple[Report | None, Update | None]


class InOrder:
    """Hands answers on by client number; past HELD_BYTES whoever is first of those that are there."""

    def __init__(self, clients: Sequence[int]) -> None:
        self._expected = list(clients)
        self._held: dict[int, Answer] = {}
        self._bytes = 0

    def put(self, client: int, answer: Answer) -> Iterator[Answer]:
        self._held[client] = answer
        self._bytes += _nbytes(answer)
        while self._expected and (self._expected[0] in self._held or (self._bytes > HELD_BYTES and self._held)):
            first = self._expected[0] if self._expected[0] in self._held else min(self._held)
            self._expected.remove(first)
            yield self._take(first)

    def rest(self) -> Iterator[Answer]:
        for client in sorted(self._held):
            yield self._take(client)

    def _take(self, client: int) -> Answer:
        answer = self._held.pop(client)
        self._bytes -= _nbytes(answer)
        return answer


def _nbytes(answer: Answer) -> int:
    return 0 if answer[1] is None else answer[1].nbytes
