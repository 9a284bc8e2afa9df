"""adagq: federated learning over slow, unequal links. See `adagq.codecs` and the `adagq` command."""

__version__ = "0.1.0"
