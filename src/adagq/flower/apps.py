"""A ServerApp around a plain function, for apps that know adagq and need not know Flower."""

from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from adagq.client.learner import Population
from adagq.flower.strategy import Compressed

Settings = Mapping[str, Any]


def server_app(main: Callable[[Settings, Grid], None]) -> ServerApp:
    """Return a ServerApp that runs `main` with the run's settings and the grid."""
    app = ServerApp()

    @app.main()
    def start(grid: Grid, context: Context) -> None:
        main(context.run_config, grid)

    return app


def train_population(strategy: Compressed, grid: Grid, population: Population, seed: int, num_rounds: int) -> None:
    """Run `strategy` from the population's first model, evaluated on its test set."""
    layout = population.layout
    first = layout.unpack(*population.initial(seed))

    def evaluate(_round: int, arrays: ArrayRecord) -> MetricRecord:
        state = {name: array.numpy() for name, array in arrays.items()}
        accuracy, loss = population.evaluate(*layout.pack(state))
        return MetricRecord({"accuracy": accuracy, "loss": loss})

    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord({name: Array(array) for name, array in first.items()}),
        num_rounds=num_rounds,
        evaluate_fn=evaluate,
    )
