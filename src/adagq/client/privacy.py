"""A client's part in differential privacy: it cuts its update, adds its noise if it has to, and says nothing more.

What leaves a client beside the payload must say nothing of its data. With noise of its own, energies and rate curve are
those of the noised update, which may be known. Without, the server adds the noise later: then they are what anybody
could say who knows the clip and the payload's length. Losses are never sent.
"""

from math import expm1, log, nan
from typing import Any

import numpy as np

from adagq.core.codec import Encoded
from adagq.core.errors import ConfigError
from adagq.core.messages import Sync, Task
from adagq.core.seeds import generator
from adagq.core.vectors import FloatVector, squared_norm


def privately(update: FloatVector, task: Task, seed: int) -> FloatVector:
    """Return the update as it may leave: cut to the task's clip, with its noise; itself without a clip."""
    if not task.clip_norm:
        return update
    with np.errstate(over="ignore"):
        norm = squared_norm(update) ** 0.5
    if norm > task.clip_norm:
        update = update * np.float32(task.clip_norm / norm)
    if task.noise_deviation:
        noise = generator(seed, "privacy noise").standard_normal(update.size, np.float32)
        update = update + np.float32(task.noise_deviation) * noise
    return update


def said(encoded: Encoded, task: Task, curve: tuple[float, ...], train_loss: float) -> dict[str, Any]:
    """Return the fields of an update that tell of the data, as they may leave."""
    own = {"energy": encoded.energy, "error_energy": encoded.error_energy, "rate_bits": curve}
    if not task.clip_norm:
        return own | {"train_loss": train_loss}
    if task.noise_deviation:
        return own | {"train_loss": nan}
    energy = task.clip_norm**2
    bits = 8 * len(encoded.payload) / max(encoded.vector.size, 1)
    return {"energy": energy, "error_energy": energy / expm1(2 * log(2) * bits), "rate_bits": (), "train_loss": nan}


def check_noise(sync: Sync | None, task: Task | None, least: float, evaluate: bool = False) -> None:
    """ConfigError if a server asks for losses, metrics, or an update with less noise than `least` times its clip."""
    if evaluate or (sync is not None and sync.probing):
        raise ConfigError("this node sends no losses and no metrics: its config asks for differential privacy")
    if task is not None and not (task.clip_norm > 0 and task.noise_deviation >= least * task.clip_norm * (1 - 1e-9)):
        given = task.noise_deviation / task.clip_norm if task.clip_norm else 0.0
        raise ConfigError(
            f"a task with noise {given:.4g} times the clip: this node's config asks for at least {least:g}; "
            'set training.privacy = { clip = …, noise_multiplier = …, noise = "clients" } at the server'
        )
