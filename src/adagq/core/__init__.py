"""What everything speaks: errors, seeds, vectors, messages, files that appear whole."""
