"""A model of 22 MB on handwritten digits, for measuring links."""
