"""Settings, run directories, checkpoints, plans."""
