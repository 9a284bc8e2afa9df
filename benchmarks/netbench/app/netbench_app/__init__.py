"""A model of 10.8 MB on handwritten digits, for measuring links."""
