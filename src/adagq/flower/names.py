"""Names that the server's and the node's side share."""

from typing import Final

ACTION: Final = "adagq"  # of Flower's message type: `train.adagq`
RUN: Final = "adagq.run"  # from the server: which run this is, and the digest of the model that a sync leads to
NODE: Final = "adagq.node"  # from the node: who it is, what it holds, how long it took
LAST: Final = "last"  # in RUN: this is the run's last round, nothing needs to be kept for another one
