"""adagq for Flower apps: a strategy for the ServerApp, a handler for the ClientApp.

    from adagq.flower import AdaGQ, Compressed          # strategy.start(grid, arrays, num_rounds=…)
    from adagq.flower import register                   # @register(app) def learner(context): …

`AdaGQ()` is `adagq-fit`, `AdaGQ("adagq")` the paper's algorithm, `Compressed("qsgd")` any row of the table of methods.
docs/deployment.md shows a Flower app before and after; examples/flower_quickstart is a whole one.
"""

from adagq.backends.flower.node import register
from adagq.backends.flower.strategy import AdaGQ, Compressed

__all__ = ["AdaGQ", "Compressed", "register"]
