"""Backends: where the clients of `rounds.federate` run. `simulated`: worker processes and a virtual clock."""
