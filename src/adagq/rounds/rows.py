"""What is written down of a closed round; docs/architecture.md describes the columns."""

from collections.abc import Sequence
from math import isfinite
from statistics import fmean
from typing import Any

from adagq.core.messages import Incident, Receipt, Settlement

SECONDS = ("download_seconds", "compute_seconds", "upload_seconds", "waiting_seconds")


def row_of(
    settlement: Settlement, norm: float, accuracy: float, loss: float, version: int, incidents: Sequence[Incident] = ()
) -> dict[str, Any]:
    """Return the measured columns of rows.jsonl; a number that is not finite is None.

    `version` is that of the model before the round's step; `incidents` are those of all attempts at the round, where
    each client counts once.
    """
    receipts = settlement.receipts
    columns = {
        "round_seconds": settlement.round_seconds,
        "accuracy": accuracy,
        "loss": loss,
        "train_loss": fmean(receipt.train_loss for receipt in receipts),
        "clients": len(receipts),
        "upload_bytes": sum(receipt.upload_bytes for receipt in receipts),
        "download_bytes": sum(receipt.download_bytes for receipt in receipts),
        **{name: fmean(getattr(receipt, name) for receipt in receipts) for name in SECONDS},
        "server_seconds": settlement.server_seconds,
        "levels": fmean(receipt.levels for receipt in receipts),
        "norm": norm,
        "nsr": noise_to_signal(receipts, norm),
        "staleness": fmean(version - receipt.version for receipt in receipts),
        "failed": len({incident.client for incident in incidents if incident.kind in ("lost", "late", "failed")}),
        "refused": len({incident.client for incident in incidents if incident.kind in ("refused", "diverged")}),
    }
    return {name: value if isfinite(value) else None for name, value in columns.items()}


def noise_to_signal(receipts: Sequence[Receipt], norm: float) -> float:
    """Return the energy of the averaged quantization error over that of the aggregate.

    Errors of different clients are independent: their energies add up with squared weights.
    """
    examples = sum(receipt.examples for receipt in receipts)
    error = sum((receipt.examples / examples) ** 2 * receipt.error_energy for receipt in receipts)
    return error / norm**2 if norm > 0 else float("nan")


def ledger_of(receipts: Sequence[Receipt], version: int) -> list[dict[str, Any]]:
    """Return the measured columns of ledger.jsonl, a line per client; `version` as for the row."""
    names = ("client", "epochs", "levels", "upload_bytes", "download_bytes", *SECONDS)
    return [
        {name: getattr(receipt, name) for name in names} | {"staleness": version - receipt.version}
        for receipt in receipts
    ]


def incidents_of(incidents: Sequence[Incident]) -> list[dict[str, Any]]:
    """Return the columns of incidents.jsonl, a line per incident."""
    return [{"client": one.client, "kind": one.kind, "reason": one.reason} for one in incidents]
