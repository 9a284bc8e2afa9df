"""A model of 5.4 MB on handwritten digits, for measuring links."""
