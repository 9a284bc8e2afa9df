"""What a client does: apply the aggregate, probe, train, encode (steps 2, 3a and 5 of a round).

    copy   = receive(copy, sync)                     # its own copy of the model, one version on
    report = probe(learner, copy, sync)              # losses the server asked for
    update, residual = work(learner, copy, task, residual)

The same code runs in the simulator's workers and on real nodes. Everything that knows about models and data
is behind `Learner`; torch is not imported here. Between rounds a client keeps its copy and, with error
feedback, its residual; all randomness comes from the run's seed by name.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from adagq.codecs import Fitting, Float32, decode
from adagq.errors import PayloadError
from adagq.feedback import send, squared_norm
from adagq.messages import Report, Sync, Task, Update
from adagq.seeds import derive, generator
from adagq.vectors import FloatVector, Layout


class Learner(Protocol):
    """One client's model and data. `learners/` has the torch one; a user's own needs only these members."""

    @property
    def layout(self) -> Layout: ...

    @property
    def examples(self) -> int:
        """Training samples of this client: its weight in the average."""
        ...

    @property
    def held_out(self) -> int:
        """Samples that `loss` goes through: what a probe costs."""
        ...

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        """Set the model to these parameters and buffers."""
        ...

    def dump(self) -> tuple[FloatVector, FloatVector]:
        """Return copies of the model's parameters and buffers."""
        ...

    def train(self, epochs: int, learning_rate: float, seed: int) -> float:
        """Run local SGD and return the mean training loss; the same seed gives the same result."""
        ...

    def loss(self) -> float:
        """Return the loss on this client's held-out samples: always the same ones; nothing is changed."""
        ...


class Population(Protocol):
    """All clients of a simulated federation: data, and one model that a worker's clients use in turn."""

    @property
    def layout(self) -> Layout: ...

    @property
    def clients(self) -> int: ...

    @property
    def flops_per_sample(self) -> float:
        """Floating-point operations to train on one sample (forward and backward), measured on the model."""
        ...

    def initial(self, seed: int) -> tuple[FloatVector, FloatVector]:
        """Return the first model's parameters and buffers."""
        ...

    def learner(self, client: int) -> Learner: ...

    @property
    def test_samples(self) -> int: ...

    def evaluate(
        self, vector: FloatVector, buffers: FloatVector, first: int = 0, last: int | None = None
    ) -> tuple[float, float]:
        """Return (accuracy, loss) on the common test set, or on its samples `first` … `last` - 1."""
        ...


@dataclass(frozen=True, slots=True)
class Copy:
    """A client's own copy of the model, and how it got there from the version before."""

    version: int
    vector: FloatVector
    buffers: FloatVector
    aggregate: FloatVector  # vector = previous - aggregate
    previous: FloatVector
    previous_buffers: FloatVector

    @classmethod
    def first(cls, version: int, vector: FloatVector, buffers: FloatVector) -> "Copy":
        """Return a model that came whole: by seed at the start, or as a full download."""
        return cls(version, vector, buffers, np.zeros_like(vector), vector, buffers)


def receive(copy: Copy | None, sync: Sync) -> Copy:
    """Return the model that `sync` leads to; aggregates that the copy has already are passed over."""
    if copy is not None and copy.version == sync.version:
        return copy
    buffers = decode(sync.buffers) if sync.buffers else np.zeros(0, np.float32)
    if sync.full:
        return Copy.first(sync.version, decode(sync.payloads[0]), buffers)
    if copy is None or not sync.base_version <= copy.version < sync.version:
        held = "none" if copy is None else copy.version
        raise PayloadError(f"sync leads from model version {sync.base_version} to {sync.version}; here is {held}")
    vector = previous = copy.vector
    aggregate = copy.aggregate
    for payload in sync.payloads[copy.version - sync.version :]:
        previous, aggregate = vector, decode(payload)
        vector = previous - aggregate
    return Copy(sync.version, vector, buffers, aggregate, previous, copy.buffers)


def probe(learner: Learner, copy: Copy, sync: Sync) -> Report:
    """Evaluate the losses that `sync` asks for, all on the same held-out samples (step 2).

    With probe levels the aggregate itself is quantized with s and with s', under the same dither, so that the
    two losses differ by the levels alone; without them `loss_after` is the loss of the model as it is.
    """
    report = Report(sync.client, sync.round, learner.examples)
    if not sync.probing:
        return report

    def loss(vector: FloatVector, buffers: FloatVector) -> float:
        learner.load(vector, buffers)
        return learner.loss()

    def requantized(levels: int) -> float:
        codec: Any = sync.probe_codec
        payload = replace(codec, levels=levels).encode(copy.aggregate, seed, learner.layout)
        return loss(copy.previous - decode(payload), copy.buffers)

    seed = derive(sync.seed, "probe", sync.round, sync.client)
    report = replace(report, loss_before=loss(copy.previous, copy.previous_buffers))
    if sync.probe_levels is None:
        report = replace(report, loss_after=loss(copy.vector, copy.buffers))
    else:
        s, s_probe = sync.probe_levels
        report = replace(report, loss_after=requantized(s), loss_probe=requantized(s_probe))
    if sync.probe_noise > 0:
        noise = generator(seed, "noise").standard_normal(copy.vector.size, np.float32)
        noise *= np.float32(np.sqrt(sync.probe_noise * squared_norm(copy.aggregate) / max(squared_norm(noise), 1e-30)))
        report = replace(report, loss_noisy=loss(copy.vector + noise, copy.buffers))
    return report


def work(
    learner: Learner, copy: Copy, task: Task, residual: FloatVector | None = None
) -> tuple[Update, FloatVector | None]:
    """Train, and encode the update `u = w_k - w_i` as the task says (steps 3a and 5).

    Returns the update and the residual to keep for the next task (None without error feedback).
    """
    learner.load(copy.vector, copy.buffers)
    train_seed = derive(task.seed, "train", task.round, task.client)
    train_loss = learner.train(task.epochs, task.learning_rate, train_seed)
    trained, buffers = learner.dump()
    update = copy.vector - trained
    if task.residual and residual is not None:
        update += residual
    layout = learner.layout
    buffers_payload = Float32().encode(buffers) if buffers.size else b""
    codec = task.codec
    if task.budget_bytes is not None and isinstance(codec, Fitting):
        codec = codec.fitted(update, max(task.budget_bytes - len(buffers_payload), 1), layout)
    seed = derive(task.seed, "encode", task.round, task.client)
    if task.residual:
        payload, received, rest = send(codec, update, seed, layout)
    else:
        payload = codec.encode(update, seed, layout)
        received, rest = decode(payload), None
    return (
        Update(
            client=task.client,
            round=task.round,
            examples=learner.examples,
            payload=payload,
            buffers=buffers_payload,
            levels=int(getattr(codec, "levels", 0)),
            energy=squared_norm(update),
            error_energy=squared_norm(received - update),
            rate_bits=tuple(map(float, codec.rate_curve(update, layout))) if task.rate_curve else (),
            train_loss=train_loss,
        ),
        rest,
    )
