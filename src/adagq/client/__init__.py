"""What a client does: keep a replica of the model, probe, train, encode."""
