"""Where torch computes: `task.device` by name, the same numbers each time where torch can.

    auto      CUDA if there is one, else Apple's GPU, else the processor
    cuda      all CUDA devices: each worker process takes one of them
    cuda:1    this one, for all workers
    mps, cpu

Several workers may share a GPU: each has a model and a batch on it, no more. A client's samples stay in the machine's
memory and go over batch by batch. Rows are the same for any number of workers on one kind of device; another kind adds
up in another order, so its rows differ in the last digits.
"""

import os
import re
from typing import Final

import torch

from adagq.core.errors import ConfigError

KINDS: Final = ("auto", "cpu", "cuda", "mps")
NUMBERED: Final = re.compile(r"cuda:(\d+)")


def device_of(name: str) -> torch.device:
    """Return the device of a setting; ConfigError if this machine, or its torch, has none such.

    >>> device_of("cpu")
    device(type='cpu')
    """
    numbered = NUMBERED.fullmatch(name)
    if name not in KINDS and numbered is None:
        raise ConfigError(f"task.device = {name!r}: must be auto, cpu, cuda, cuda:0, cuda:1, … or mps")
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = torch.backends.mps.is_available()
    if name == "auto":
        name = "cuda" if cuda else "mps" if mps else "cpu"
    if name.startswith("cuda"):
        if not cuda:
            built = "finds none" if torch.version.cuda else "is built without CUDA"
            raise ConfigError(
                f"task.device = {name!r}: there is no CUDA device here (torch {torch.__version__} {built})"
            )
        index = os.getpid() % cuda if numbered is None else int(numbered[1])
        if index >= cuda:
            raise ConfigError(f"task.device = {name!r}: there are {cuda} CUDA devices, cuda:0 to cuda:{cuda - 1}")
        _always_the_same()
        return torch.device("cuda", index)
    if name == "mps" and not mps:
        raise ConfigError(f"task.device = {name!r}: torch {torch.__version__} finds no Apple GPU here")
    return torch.device(name)


def _always_the_same() -> None:
    """Have CUDA give the same bits each time: no search for the fastest kernel, no shorter floats."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before its first matrix product
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
