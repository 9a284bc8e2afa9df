"""Nodes that pull a vector towards their own centre."""

from flwr.clientapp import ClientApp

from adagq.flower import register

app = ClientApp()
register(app, "fault_app.learner:learner")
