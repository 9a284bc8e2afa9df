"""What the codecs of clients that were seen keep, in memory and as arrays of a checkpoint."""

from collections.abc import Mapping
from typing import Any, Final

from numpy.typing import NDArray

from adagq.core.codec import Arrays

STATE: Final = "state_"


class States(dict[int, Arrays]):
    """Client -> its codec's state."""

    @property
    def largest_bytes(self) -> int:
        return max((sum(array.nbytes for array in state.values()) for state in self.values()), default=0)

    def pack(self) -> dict[str, NDArray[Any]]:
        return {f"{STATE}{client}_{name}": array for client, state in self.items() for name, array in state.items()}

    def unpack(self, saved: Mapping[str, NDArray[Any]]) -> None:
        """Take in what `pack` returned, among other arrays."""
        for key, array in saved.items():
            if key.startswith(STATE):
                client, _, name = key.removeprefix(STATE).partition("_")
                self[int(client)] = {**self.get(int(client), {}), name: array}
