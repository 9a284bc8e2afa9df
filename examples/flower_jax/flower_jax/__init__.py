"""A JAX model on Flower, with updates that fit the nodes' links."""
