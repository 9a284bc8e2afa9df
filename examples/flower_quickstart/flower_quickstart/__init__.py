"""Handwritten digits on Flower, with updates that fit the nodes' links."""
