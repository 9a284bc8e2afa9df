"""Controllers: who sends how much, decided from facts alone. The contract is in `adagq.control.controller`.

| controller | rule |
| --- | --- |
| `Fixed` | the same levels for all, always |
| `NormOnly` | the same levels for all, following the norm of the aggregate (the paper's figure 2b) |
| `AdaGQ` | the paper's: mean levels by the loss-decrease rate, each client's by equal finishing times |
| `Fit` | ours: the finishing time by seconds per unit of progress, every client's spare time filled with bytes |
"""

from adagq.control.adagq import AdaGQ, AdaGQState
from adagq.control.allocate import allocate, bits_of, levels_of
from adagq.control.controller import Controller, ControlState, Probe
from adagq.control.fit import Fit
from adagq.control.fit_state import FitState
from adagq.control.fixed import Fixed, FixedState
from adagq.control.norm_only import NormOnly, NormOnlyState

__all__ = [
    "AdaGQ",
    "AdaGQState",
    "ControlState",
    "Controller",
    "Fit",
    "FitState",
    "Fixed",
    "FixedState",
    "NormOnly",
    "NormOnlyState",
    "Probe",
    "allocate",
    "bits_of",
    "levels_of",
]
