"""The torch side of `client.Learner` and `client.Population`: local SGD on one client's samples.

    learner = TorchLearner(module, train=(x, y), held_out=(x, y))            # a user's own module and data
    population = TorchPopulation(Net, [(train, held_out), …], test=(x, y))   # all clients of a simulation

Same seed, same bytes: every shuffle and every draw of a layer (dropout) comes from the seed that `train` is
given, and a population computes on one thread.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import starmap
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from adagq.core.errors import ConfigError, DataError
from adagq.core.seeds import derive, generator
from adagq.core.vectors import FloatVector, Layout
from adagq.learners.clients import LazyClients
from adagq.learners.flat import FlatModule, Group
from adagq.learners.samples import Samples, batches
from adagq.learners.travelling import tied_names

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]

PRECISIONS = ("float32", "bfloat16")  # bfloat16: mixed precision, by torch's autocast
ONE_BATCH = 0.99  # of an epoch: parts are possible, and less than all of it is not worth a round
EVALUATION_BATCH = 500
KEPT_LEARNERS = 256  # of clients whose samples are made when they are asked for


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from `seed` inside, and leave torch's global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # `torch.manual_seed` also formats a stack for every accelerator
        yield


class TorchLearner:
    """One client: a module, its samples, plain SGD. Learners may share a `FlatModule` and take turns.

    `held_out` is needed by methods that probe; without it `loss` is an error.
    """

    def __init__(
        self,
        module: nn.Module | FlatModule,
        train: Any,
        held_out: Any = None,
        *,
        batch_size: int = 32,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        loss: Loss = cross_entropy,
        precision: str = "float32",
    ) -> None:
        if precision not in PRECISIONS:
            raise ConfigError(f"task.precision = {precision!r}: must be one of {', '.join(PRECISIONS)}")
        self._mixed = precision == "bfloat16"
        self.model = module if isinstance(module, FlatModule) else FlatModule(module)
        self._train = Samples.of(train)
        self._held_out = None if held_out is None else Samples.of(held_out)
        if not len(self._train):
            raise DataError("a client needs at least one training sample")
        if batch_size < 1:
            raise ConfigError(f"batch_size: {batch_size} is below 1")
        self.batch_size, self.momentum, self.weight_decay = batch_size, momentum, weight_decay
        self._loss = loss
        self.tied = tied_names(self.model.module)
        self._proximal, self._inertia = 0.0, 0.0
        self._direction: FloatVector | None = None
        self.evaluate = None if held_out is None else self._evaluated

    @property
    def layout(self) -> Layout:
        return self.model.layout

    @property
    def examples(self) -> int:
        return len(self._train)

    @property
    def held_out(self) -> int:
        return 0 if self._held_out is None else len(self._held_out)

    def load(self, vector: FloatVector, buffers: FloatVector) -> None:
        self.model.load(vector, buffers)

    def dump(self) -> tuple[FloatVector, FloatVector]:
        return self.model.dump()

    def steer(self, proximal: float, inertia: float, direction: FloatVector) -> None:
        """Pull the next trainings (`client.optimizers`): to their first model, and along the last global step."""
        self._proximal, self._inertia = proximal, inertia if direction.any() else 0.0
        self._direction = direction if self._inertia else None

    def _pulls(self, groups: Sequence[Group], steps: int, learning_rate: float) -> list[tuple[Tensor, Tensor]]:
        """Return for each group its first model and what FedCM adds to every gradient; nothing where nobody pulls."""
        if not self._proximal and self._direction is None:
            return []
        whole = torch.zeros(self.layout.elements)
        if self._direction is not None:
            scale = self._inertia / (learning_rate * max(steps, 1))
            whole = torch.from_numpy(self._direction * np.float32(scale))
        pulls = []
        for group in groups:
            added = torch.zeros_like(group.vector)
            for own, place in group.pieces:
                added[own].copy_(whole[place])
            pulls.append((group.vector.clone(), added))
        return pulls

    @property
    def least_epochs(self) -> float:
        """A batch's share of an epoch; below 1 also where all samples are one batch: parts of it are trained too."""
        return min(self.batch_size / self.examples, ONE_BATCH)

    def train(self, epochs: float, learning_rate: float, seed: int) -> float:
        """Run `epochs` of SGD, the last in part if they are not whole.

        Momentum starts from zero, as a client's optimizer does every round.
        """
        module, groups = self.model.module, self.model.bind_gradients()
        velocities = [torch.zeros_like(group.gradient) if self.momentum else group.gradient for group in groups]
        shares = [1.0] * int(epochs) + [epochs % 1.0] * (epochs % 1.0 > 0.0)  # of the samples, epoch by epoch
        steps = sum(len(batches(self._train.index, self.batch_size, share)) for share in shares)
        pulls = self._pulls(groups, steps, learning_rate)
        total, seen = 0.0, 0
        module.train()
        with seeded(derive(seed, "layers")):
            for epoch, share in enumerate(shares):
                order = torch.from_numpy(generator(seed, "shuffle", epoch).permutation(self.examples))
                for rows in batches(self._train.index[order], self.batch_size, share):
                    inputs, targets = self.model.accept(*self._train.batch(rows))
                    for group in groups:
                        group.gradient.zero_()
                    with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self._mixed):
                        loss = self._loss(module(inputs), targets)
                    loss.backward()  # type: ignore[no-untyped-call]
                    for group, (first, added) in zip(groups, pulls, strict=False):  # no pulls: no group is pulled
                        group.gradient.mul_(1.0 - self._inertia).add_(added)
                        group.gradient.add_(group.vector - first, alpha=self._proximal)
                    # All parameters of a type are one vector: SGD is these lines, not a loop over tensors.
                    for group, velocity in zip(groups, velocities, strict=True):
                        if self.weight_decay:
                            group.gradient.add_(group.vector, alpha=self.weight_decay)
                        if self.momentum:
                            velocity.mul_(self.momentum).add_(group.gradient)
                        group.vector.sub_(velocity, alpha=learning_rate)
                    total += loss.item() * len(rows)
                    seen += len(rows)
        return total / seen if seen else float("nan")

    def loss(self) -> float:
        if self._held_out is None or not len(self._held_out):
            raise DataError("this client has no held-out samples to evaluate a loss on")
        return evaluate(self.model, self._held_out, self._loss)[1]

    def _evaluated(self) -> dict[str, float]:
        """Return accuracy and loss on the held-out samples."""
        assert self._held_out is not None
        accuracy, loss = evaluate(self.model, self._held_out, self._loss)
        return {"eval_acc": accuracy, "eval_loss": loss}


def evaluate(model: FlatModule, samples: Samples, loss: Loss = cross_entropy) -> tuple[float, float]:
    """Return (accuracy, mean loss) of the model as it is; statistics, mode and gradients stay untouched.

    Accuracy is the share of labels: of samples, or of tokens where each has its own.
    """
    module, was_training = model.module, model.module.training
    module.eval()
    total, correct, labels = 0.0, 0, 0
    with torch.inference_mode():
        for rows in torch.split(samples.index, EVALUATION_BATCH):
            inputs, targets = model.accept(*samples.batch(rows))
            outputs = module(inputs)
            total += loss(outputs, targets).item() * len(rows)
            labels += targets.numel()
            if outputs.ndim == targets.ndim + 1 and not targets.is_floating_point():
                correct += int((outputs.argmax(1) == targets).sum())
    module.train(was_training)
    return correct / labels, total / len(samples)


class TorchPopulation:
    """All clients of a simulated federation around one module, on one torch thread.

    `build` draws a fresh module; `clients` holds a (training, held-out) pair of samples for each client, or makes it
    when it is asked for (`LazyClients`). A model is drawn on the processor, so it is the same on any `device`.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        clients: Sequence[tuple[Any, Any]],
        test: Any,
        *,
        batch_size: int = 32,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        loss: Loss = cross_entropy,
        device: torch.device | str = "cpu",
        precision: str = "float32",
    ) -> None:
        if not clients:
            raise DataError("a population needs at least one client")
        # More threads would split sums differently on different machines, and workers already fill the cores.
        torch.set_num_threads(1)
        self._build = build
        self._test = Samples.of(test)
        self._loss = loss
        with seeded(0):
            self._model = FlatModule(build().to(device))
        self._learner = partial(
            TorchLearner,
            self._model,
            batch_size=batch_size,
            momentum=momentum,
            weight_decay=weight_decay,
            loss=loss,
            precision=precision,
        )
        self._clients = clients
        self._learners: dict[int, TorchLearner] = {}  # those that were asked for last
        if not isinstance(clients, LazyClients):
            self._learners = dict(enumerate(starmap(self._learner, clients)))

    @property
    def layout(self) -> Layout:
        return self._model.layout

    @property
    def clients(self) -> int:
        return len(self._clients)

    @property
    def sizes(self) -> tuple[Iterable[int], Iterable[int]]:
        """Training and held-out samples of every client."""
        if isinstance(self._clients, LazyClients):
            return self._clients.examples, self._clients.held_out
        return [one.examples for one in self._learners.values()], [one.held_out for one in self._learners.values()]

    @cached_property
    def flops_per_sample(self) -> float:
        """Operations of one forward and backward pass, counted by torch while it runs a small batch."""
        from torch.utils.flop_counter import FlopCounterMode

        with seeded(0), warnings.catch_warnings(action="ignore"), torch.backends.mkldnn.flags(enabled=False):
            # Without oneDNN a recurrent layer is the matrix products that the counter knows.
            module = self._build().to(self._model.device).train()
            inputs, targets = self._model.accept(*self._test.batch(self._test.index[:4]))
            with FlopCounterMode(display=False) as counter:
                self._loss(module(inputs), targets).backward()  # type: ignore[no-untyped-call]
        return float(counter.get_total_flops()) / len(targets)

    def initial(self, seed: int) -> tuple[FloatVector, FloatVector]:
        with seeded(derive(seed, "model")):
            return FlatModule(self._build()).dump()

    @property
    def test_samples(self) -> int:
        return len(self._test)

    def learner(self, client: int) -> TorchLearner:
        if client not in self._learners:
            if len(self._learners) >= KEPT_LEARNERS:
                del self._learners[next(iter(self._learners))]  # the oldest
            self._learners[client] = self._learner(*self._clients[client])
        return self._learners[client]

    def evaluate(
        self, vector: FloatVector, buffers: FloatVector, first: int = 0, last: int | None = None
    ) -> tuple[float, float]:
        self._model.load(vector, buffers)
        samples = self._test if last is None else self._test.take(torch.arange(first, last))
        return evaluate(self._model, samples, self._loss)
