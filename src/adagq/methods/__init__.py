"""METHODS: one row per method, and rows of your own from settings."""

from adagq.methods.table import METHODS, Method, compared, method_of

__all__ = ["METHODS", "Method", "compared", "method_of"]
