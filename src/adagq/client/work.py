"""What a client does with a message: probe, train, encode (steps 2, 3a and 5 of a round).

    replica = receive(replica, sync)                     # its replica of the model, one version on
    report  = probe(learner, replica, sync)              # losses the server asked for
    update, state = work(learner, replica, task, state)

The same code runs in the simulator's workers and on real nodes. Everything that knows about models and data
is behind `Learner`; torch is not imported here. Between rounds a client keeps its replica and its codec's state, a
named dictionary of arrays; all randomness comes from the run's seed by name.
"""

from math import isfinite

from adagq.client.learner import Learner, least_epochs, trainable
from adagq.client.optimizers import steer
from adagq.client.privacy import privately, said
from adagq.client.replica import Replica
from adagq.codecs import Float32, decode, send
from adagq.codecs.withholding import is_withheld
from adagq.core.codec import Arrays, Codec, levels_of
from adagq.core.errors import NonFiniteError
from adagq.core.messages import Report, Sync, Task, Update
from adagq.core.seeds import derive
from adagq.core.vectors import FloatVector


def probe(learner: Learner, replica: Replica, sync: Sync) -> Report:
    """Evaluate the losses that `sync` asks for, all on the same held-out samples (step 2).

    The aggregate itself is quantized with both codecs under the same dither, so that the two losses differ by the
    codec alone.
    """
    report = Report(sync.client, sync.round, learner.examples)
    if not sync.probing or sync.probe is None:
        return report
    seed = derive(sync.seed, "probe", sync.round, sync.client)

    def loss(vector: FloatVector, buffers: FloatVector) -> float:
        learner.load(vector, buffers)
        return learner.loss()

    def requantized(codec: Codec) -> float:
        payload = codec.encode(replica.aggregate, seed, learner.layout)
        return loss(replica.previous - decode(payload), replica.buffers)

    codec, other = sync.probe
    return Report(
        client=sync.client,
        round=sync.round,
        examples=learner.examples,
        loss_before=loss(replica.previous, replica.previous_buffers),
        loss_after=requantized(codec),
        loss_probe=requantized(other),
    )


def work(
    learner: Learner, replica: Replica, task: Task, state: Arrays, secret: int | None = None
) -> tuple[Update, Arrays]:
    """Train, and encode the update `u = w_k - w_i` as the task says (steps 3a and 5).

    `state` is what the codec kept of the last task, {} at first; returns the update and the state for the next one.
    Noise for privacy comes from `secret`, which nobody else may know; a simulation draws it from the run's seed.
    NonFiniteError if training diverged: then nothing is sent.
    """
    learner.load(replica.vector, replica.buffers)
    steer(learner, task.proximal, task.inertia, replica.aggregate)
    train_seed = derive(task.seed, "train", task.round, task.client)
    train_loss = learner.train(trainable(learner, task.epochs), task.learning_rate, train_seed)
    trained, buffers = learner.dump()
    buffers_payload = Float32().encode(buffers) if buffers.size else b""
    noise_seed = derive(task.seed, "noise", task.round, task.client) if secret is None else secret
    update = privately(replica.vector - trained, task, noise_seed)
    encoded = send(
        task.codec,
        update,
        state,
        seed=derive(task.seed, "encode", task.round, task.client),
        layout=learner.layout,
        reference=replica.aggregate,
        budget_bytes=task.payload_budget(update.size, len(buffers_payload)),
    )
    # Finite numbers whose squares are not finite are of no use to a server.
    if not isfinite(encoded.energy + encoded.error_energy):
        raise NonFiniteError(f"client {task.client}: an update of energy {encoded.energy:g}")
    curve = encoded.codec.rate_curve(encoded.vector, learner.layout) if task.rate_curve else ()
    return (
        Update(
            client=task.client,
            round=task.round,
            examples=learner.examples,
            payload=encoded.payload,
            buffers=b"" if is_withheld(encoded.payload) else buffers_payload,
            levels=levels_of(encoded.codec),
            version=replica.version,
            least_epochs=least_epochs(learner),
            **said(encoded, task, tuple(map(float, curve)), train_loss),
        ),
        encoded.state,
    )
