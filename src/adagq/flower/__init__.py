"""adagq for Flower apps: a strategy for the ServerApp, a handler for the ClientApp.

    from adagq.flower import AdaGQ, Compressed          # strategy.start(grid, arrays, num_rounds=…)
    from adagq.flower import register                   # register(app, "my_app.task:learner")

`AdaGQ()` is `adagq-auto`, `AdaGQ("adagq")` the paper's algorithm, `Compressed("qsgd")` any row of the table of methods.
docs/deployment.md shows a Flower app before and after; examples/flower_quickstart is a whole one.

    server   strategy.Compressed → rounds → backend.Nodes → transport → Flower's Grid
    node     registration.register → handover ══ resident → node.answer → client: receive, probe, work → storage

`records` has the wire form of the messages, `link_rates` turns measured seconds into rates, `members` gives nodes the
small integers that the loops call clients, `local` runs a whole federation on this machine. This folder is the only
place that imports `flwr`, and does so when a name is first used.
"""

from typing import TYPE_CHECKING, Any

from adagq.core.extras import need
from adagq.core.lazy import lazy_names

if TYPE_CHECKING:
    from adagq.flower.registration import register
    from adagq.flower.strategy import AdaGQ, Compressed

__all__ = ["AdaGQ", "Compressed", "register"]

_load = lazy_names(__name__, {"AdaGQ": "strategy", "Compressed": "strategy", "register": "registration"})


def __getattr__(name: str) -> Any:
    if name in __all__:
        need("flwr", "flower")
    return _load(name)
