"""A run at a round boundary, in one file: all that the next round depends on.

`save` replaces the file in one step, so a kill at any moment leaves the old checkpoint or the new one. It notes
how long the row files were and their digests: what a killed run wrote after that is cut off before it continues, and
what was changed before is found. A file that is torn or of another version is refused.
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

from adagq.core.atomic import replacing
from adagq.core.codec import Arrays
from adagq.core.errors import CheckpointError
from adagq.core.messages import Broadcast, Receipt
from adagq.core.vectors import Layout
from adagq.experiments.row_files import Mark
from adagq.methods.table import Method
from adagq.rounds.state import State
from adagq.server.broadcast import Broadcaster, Versions
from adagq.server.deadlines import Pace
from adagq.server.exclusion import Exclusions
from adagq.server.intake import Usual
from adagq.server.model import GlobalModel
from adagq.server.privacy import Spent

FORMAT: Final = 5
READABLE: Final = (4, FORMAT)  # 4 had the versions as a table in its state
REMEDY: Final = "remove it to keep the runs that are at their end and begin the others anew"
BACKEND: Final = "backend_"
OPTIMIZER: Final = "optimizer_"
BROADCASTER: Final = "broadcaster_"
REFERENCE: Final = "reference"


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: where the run stood, its files, and the parts to go on with."""

    settings: str  # their digest
    method: str
    seed: int
    marks: dict[str, Mark]
    state: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def restore(self, method: Method, layout: Layout) -> State:
        """Return the loop's state; the controller makes its own part."""
        state, arrays = self.state, self.arrays
        model = GlobalModel(
            layout=layout,
            vector=arrays["vector"],
            buffers=arrays["buffers"],
            optimizer=method.optimizer,
            version=state["version"],
            optimizer_state=self._named(OPTIMIZER),
        )
        broadcaster = Broadcaster(
            codec=method.downlink,
            seed=self.seed,
            state=self._named(BROADCASTER),
            versions=_versions(state.get("versions"), arrays.get("versions")),
            payloads=deque(arrays[f"payload{index}"].tobytes() for index in range(state["payloads"])),
            latest=Broadcast(**state["broadcast"]),
            reference=arrays.get(REFERENCE),
        )
        return State(
            model=model,
            broadcaster=broadcaster,
            control=method.controller.from_json(state["control"]),
            round=state["round"],
            seconds=state["seconds"],
            receipts=tuple(Receipt(**_tuples(receipt)) for receipt in state["receipts"]),
            norm=state["norm"],
            server_seconds=state["server_seconds"],
            downloaded=Broadcast(**state["downloaded"]),
            pace=Pace.from_json(state["pace"]),
            usual=Usual(**_tuples(state["usual"])),
            exclusions=Exclusions.from_json(state["exclusions"]),
            spent=Spent.from_json(state.get("spent", {})),
            noise_energy=state.get("noise_energy", 0.0),
            loop=state["loop"],
        )

    @property
    def backend(self) -> dict[str, NDArray[Any]]:
        """What the backend wanted back."""
        return self._named(BACKEND)

    def _named(self, prefix: str) -> dict[str, NDArray[Any]]:
        return {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}


def save(path: Path, run: Mapping[str, Any], state: State, backend: Arrays) -> None:
    """Write the checkpoint; `run` has the fields that name it, `backend` is what the backend wants back."""
    model, broadcaster = state.model, state.broadcaster
    plain = {
        "round": state.round,
        "seconds": state.seconds,
        "norm": state.norm,
        "server_seconds": state.server_seconds,
        "broadcast": dataclasses.asdict(broadcaster.latest),
        "downloaded": dataclasses.asdict(state.downloaded),
        "receipts": [dataclasses.asdict(receipt) for receipt in state.receipts],
        "control": state.control.to_json(),
        "version": model.version,
        "payloads": len(broadcaster.payloads),
        "pace": state.pace.to_json(),
        "usual": dataclasses.asdict(state.usual),
        "exclusions": state.exclusions.to_json(),
        "spent": state.spent.to_json(),
        "noise_energy": state.noise_energy,
        "loop": state.loop,
    }
    arrays: dict[str, Any] = {
        "vector": model.vector,
        "buffers": model.buffers,
        "versions": broadcaster.versions.column,
        **{f"payload{i}": np.frombuffer(p, np.uint8) for i, p in enumerate(broadcaster.payloads)},
        **({} if broadcaster.reference is None else {REFERENCE: broadcaster.reference}),
        **{OPTIMIZER + name: array for name, array in model.optimizer_state.items()},
        **{BROADCASTER + name: array for name, array in broadcaster.state.items()},
        **{BACKEND + name: array for name, array in backend.items()},
    }
    head = json.dumps({"format": FORMAT, **run, "state": plain, "arrays": sorted(arrays)}).encode()
    arrays["head"] = np.frombuffer(head, np.uint8)
    with replacing(path) as file:
        np.savez(file, **arrays)


def load(path: Path) -> Checkpoint | None:
    """Return the checkpoint, None if there is none; CheckpointError if it is torn or of another version."""
    try:
        data = path.read_bytes()
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}  # checks the CRC of each
        head = json.loads(arrays.pop("head").tobytes())
    except FileNotFoundError:
        return None
    except Exception as error:  # a damaged zip can raise anything
        raise CheckpointError(f"{path}: torn or not a checkpoint ({error}); {REMEDY}") from None
    if not isinstance(head, dict) or head.get("arrays", sorted(arrays)) != sorted(arrays):
        raise CheckpointError(f"{path}: torn or not a checkpoint (parts are missing); {REMEDY}")
    if head.get("format") not in READABLE:
        raise CheckpointError(f"{path}: checkpoint format {head.get('format')}, this release reads {FORMAT}; {REMEDY}")
    marks = {name: Mark(*mark) for name, mark in head["marks"].items()}
    return Checkpoint(head["settings"], head["method"], head["seed"], marks, head["state"], arrays)


def _versions(table: Mapping[str, int] | None, column: NDArray[np.int32] | None) -> Versions:
    """Return who holds which version, from the column or from the table of format 4."""
    versions = Versions(() if column is None else column)
    for client, version in (table or {}).items():
        versions[int(client)] = version
    return versions


def _tuples(receipt: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in receipt.items()}
