"""Packages that only some features need: imported when they are used, with one line of help where they are absent."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from adagq.core.errors import ConfigError


def installed(*modules: str) -> bool:
    """Whether all of these can be imported; none of them is.

    >>> installed("json"), installed("json", "no_such_package")
    (True, False)
    """
    return all(sys.modules.get(module, module) is not None and find_spec(module) for module in modules)


def need(module: str, extra: str) -> Any:
    """Return the module; where it is not installed, a ConfigError says what to install.

    >>> need("json", "report").dumps([1])
    '[1]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # it is there, and something that it needs is broken
        package = module.partition(".")[0]
        raise ConfigError(f'{package} is not installed: pip install "adagq[{extra}]"') from None
