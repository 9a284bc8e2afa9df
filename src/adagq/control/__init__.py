"""Controllers: who sends how much, decided from facts alone. The contract is in `adagq.control.controller`.

| controller | rule |
| --- | --- |
| `Fixed` | the same levels for all, always |
| `NormOnly` | the same levels for all, following the norm of the aggregate (the paper's figure 2b) |
| `AdaGQ` | the paper's: mean levels by the loss-decrease rate, each client's by equal finishing times |
| `AdaQuantFL`, `DAdaQuant`, `Han`, `AdaComm`, `Lupa` | rivals': docs/methods.md |
| `Fit` | ours: the finishing time by seconds per unit of progress, every client's spare time filled with bytes |
"""

from adagq.control.adagq import AdaGQ, AdaGQState
from adagq.control.allocate import allocate, bits_of, levels_of
from adagq.control.controller import Controller, ControlState
from adagq.control.dadaquant import DAdaQuant, DAdaQuantState
from adagq.control.fit import Fit
from adagq.control.fit_state import FitState
from adagq.control.fixed import Fixed, FixedState
from adagq.control.han import Han, HanState
from adagq.control.loss_rules import AdaComm, AdaQuantFL, LossState, Lupa
from adagq.control.norm_only import NormOnly, NormOnlyState
from adagq.control.registry import CONTROLLERS

__all__ = [
    "CONTROLLERS",
    "AdaComm",
    "AdaGQ",
    "AdaGQState",
    "AdaQuantFL",
    "ControlState",
    "Controller",
    "DAdaQuant",
    "DAdaQuantState",
    "Fit",
    "FitState",
    "Fixed",
    "FixedState",
    "Han",
    "HanState",
    "LossState",
    "Lupa",
    "NormOnly",
    "NormOnlyState",
    "allocate",
    "bits_of",
    "levels_of",
]
