"""What the server does: add up updates, move the model, broadcast, validate, set deadlines."""
