"""CONTROLLERS: every controller by the name that settings give it, filled by the files that define them.

A package adds a controller by an entry point of the group "adagq.controllers".
"""

from typing import Any, Final

from adagq.core.registry import Registry

CONTROLLERS: Final[Registry[Any]] = Registry("controller", group="adagq.controllers")  # of their classes
