"""The node's side: say where the learner is."""

from flwr.clientapp import ClientApp

from adagq.flower import register

app = ClientApp()
register(app, "flower_sklearn.learner:learner")
