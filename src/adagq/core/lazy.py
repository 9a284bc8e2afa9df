"""Names of a package that are imported when they are first used: a package stays quick to import."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package`; `homes` has the submodule of each name; of its own name: the submodule.

    >>> load = lazy_names("adagq", {"derive": "core.seeds", "vectors": "core.vectors"})
    >>> load("derive").__name__, load("vectors").__name__
    ('derive', 'adagq.core.vectors')
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name]}")
        return module if homes[name].rpartition(".")[2] == name else getattr(module, name)

    return load
