"""Names that the server's and the node's side share."""

from typing import Final

ACTION: Final = "adagq"  # of Flower's message type: `train.adagq`
RUN: Final = "adagq.run"  # from the server: which run this is, and the digest of the model that a sync leads to
NODE: Final = "adagq.node"  # from the node: who it is, what it holds, how long it took
CONFIG: Final = "adagq.config"  # from the server: `train_config`, for learners that take it
EVALUATE: Final = "adagq.evaluate"  # from the server: evaluate the model that the sync leads to, with these settings
METRICS: Final = "metrics"  # from the node: of training or of evaluation, as Flower's own apps send them
WEIGHT: Final = "num-examples"  # among the metrics: what they count for
ROUND: Final = "server-round"  # among settings for the nodes
LAST: Final = "last"  # in RUN: this is the run's last round, nothing needs to be kept for another one
STYPE: Final = "adagq.payload"  # of arrays that hold opaque bytes
