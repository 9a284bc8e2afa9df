"""The node's side: say where the learner is; adagq does the rest.

Flower loads this module for every message, so it does not import torch: the learner lives in a process that stays.
"""

from flwr.clientapp import ClientApp

from adagq.flower import register

app = ClientApp()
register(app, "flower_quickstart.learner:learner")
