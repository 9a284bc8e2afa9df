"""What this process may use of the machine."""

import os


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux; elsewhere a process may use all of them
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
