"""Benchmarks behind `adagq bench`: they read the machine's clock and print ratios."""
