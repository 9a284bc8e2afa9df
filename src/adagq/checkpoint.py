"""A run at a round boundary, in one file: all that the next round depends on.

`save` replaces the file in one step, so a kill at any moment leaves the old checkpoint or the new one. It notes
how long the row files were: what a killed run wrote after that is cut off before it continues. A file that is
torn, of another version or of other settings is refused.
"""

import dataclasses
import io
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adagq.deadlines import Pace
from adagq.drafts import replacing
from adagq.errors import CheckpointError
from adagq.federation import State
from adagq.messages import Broadcast, Receipt
from adagq.methods import Method
from adagq.server import Downlink
from adagq.vectors import Layout

FORMAT: Final = 2
BACKEND: Final = "backend_"
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: where the run stood, how long its files were, and the parts to go on with."""

    method: str
    seed: int
    sizes: dict[str, int]
    state: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    @property
    def backend(self) -> dict[str, NDArray[Any]]:
        """What the backend wanted back."""
        return {name.removeprefix(BACKEND): array for name, array in self.arrays.items() if name.startswith(BACKEND)}

    def restore(self, method: Method, layout: Layout) -> State:
        """Return the loop's state; the controller makes its own part."""
        told, arrays = self.state, self.arrays
        downlink = Downlink(
            layout=layout,
            codec=method.downlink,
            seed=self.seed,
            vector=arrays["vector"],
            buffers=arrays["buffers"],
            version=told["version"],
            residual=arrays.get("residual"),
            versions={int(client): version for client, version in told["versions"].items()},
            payloads=deque(arrays[f"payload{index}"].tobytes() for index in range(told["payloads"])),
        )
        return State(
            downlink=downlink,
            control=method.controller.from_json(told["control"]),
            round=told["round"],
            seconds=told["seconds"],
            receipts=tuple(Receipt(**_tuples(receipt)) for receipt in told["receipts"]),
            norm=told["norm"],
            server_seconds=told["server_seconds"],
            broadcast=Broadcast(**told["broadcast"]),
            downloaded=Broadcast(**told["downloaded"]),
            pace=Pace.from_json(told["pace"]),
            norms=tuple(told["norms"]),
            wary=told["wary"],
        )


def save(path: Path, run: Mapping[str, Any], state: State, backend: Arrays) -> None:
    """Write the checkpoint; `run` has the fields that name it, `backend` is what the backend wants back."""
    downlink = state.downlink
    told = {
        "round": state.round,
        "seconds": state.seconds,
        "norm": state.norm,
        "server_seconds": state.server_seconds,
        "broadcast": dataclasses.asdict(state.broadcast),
        "downloaded": dataclasses.asdict(state.downloaded),
        "receipts": [dataclasses.asdict(receipt) for receipt in state.receipts],
        "control": state.control.to_json(),
        "version": downlink.version,
        "versions": downlink.versions,
        "payloads": len(downlink.payloads),
        "pace": state.pace.to_json(),
        "norms": state.norms,
        "wary": state.wary,
    }
    arrays: dict[str, Any] = {
        "vector": downlink.vector,
        "buffers": downlink.buffers,
        **{f"payload{i}": np.frombuffer(p, np.uint8) for i, p in enumerate(downlink.payloads)},
        **{BACKEND + name: array for name, array in backend.items()},
    }
    if downlink.residual is not None:
        arrays["residual"] = downlink.residual
    head = json.dumps({"format": FORMAT, **run, "state": told, "arrays": sorted(arrays)}).encode()
    arrays["head"] = np.frombuffer(head, np.uint8)
    with replacing(path) as file:
        np.savez(file, **arrays)


def load(path: Path, settings: str) -> Checkpoint | None:
    """Return the checkpoint, None if there is none; CheckpointError if it is torn or of another run."""
    try:
        data = path.read_bytes()
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}  # checks the CRC of each
        head = json.loads(arrays.pop("head").tobytes())
    except FileNotFoundError:
        return None
    except Exception as error:  # a damaged zip can raise anything
        raise CheckpointError(f"{path}: torn or not a checkpoint ({error})") from None
    if not isinstance(head, dict) or head.get("arrays", sorted(arrays)) != sorted(arrays):
        raise CheckpointError(f"{path}: torn or not a checkpoint (parts are missing)")
    if head.get("format") != FORMAT:
        raise CheckpointError(f"{path}: checkpoint format {head.get('format')}, this release reads {FORMAT}")
    if head["settings"] != settings:
        raise CheckpointError(f"{path}: belongs to a run with other settings")
    return Checkpoint(head["method"], head["seed"], head["sizes"], head["state"], arrays)


def _tuples(receipt: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in receipt.items()}
