"""The function that makes a node's learner, by its name: "package.module:function"."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from flwr.app import Context

from adagq.client.learner import Learner
from adagq.core.errors import ConfigError
from adagq.core.registry import suggestion

Make = Callable[[Context], Learner]


def make_of(reference: str) -> Make:
    """Return the function of this name; `ConfigError` if its module has none.

    >>> make_of("math:sqrt")(9.0)
    3.0
    """
    module_name, _, name = reference.partition(":")
    module = import_module(module_name)
    make: Any = getattr(module, name, None)
    if not callable(make):
        raise ConfigError(f"{module_name} has no function {name!r}: {suggestion(name, vars(module))}")
    function: Make = make
    return function
