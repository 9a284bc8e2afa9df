"""Modules and functions of the user's own, by name: "package.module", "my.py", "my.py:build".

A file is found from the folder of the settings that name it. Its own folder goes on `sys.path`, so that it imports what
lies beside it as it does when it is run; a file of a package is imported as a part of that package.
"""

import importlib
import importlib.util
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from adagq.core.errors import ConfigError
from adagq.core.registry import suggestion

REFERENCE: Final = re.compile(r"(?P<module>[A-Za-z_][\w.]*|.*\.py):(?P<name>[A-Za-z_]\w*)")
GUARD: Final = 'if __name__ == "__main__":'
NO_GUARD: Final = 87  # exit code of a worker process whose script starts workers when it is imported
_loading: list[str] = []  # modules of the user's that are being imported now


def load_module(name: str, folder: Path = Path(), what: str = "module") -> ModuleType:
    """Import a module by its dotted name, or by the path of its .py file (relative to `folder`)."""
    if not name.endswith(".py"):
        try:
            with _importing(name):
                return importlib.import_module(name)
        except ImportError as error:
            raise ConfigError(f"{what} {name!r} cannot be imported: {error}") from None
    path = (folder / name).resolve()
    if not path.is_file():
        raise ConfigError(f"{what} {name!r}: there is no file {path}")
    root, dotted = _place(path)
    if str(root) not in sys.path:
        sys.path.append(str(root))
    if "." in dotted:
        return load_module(dotted, folder, what)
    return _load_file(path, name, what)


def load_plugin(name: str, folder: Path = Path()) -> None:
    """Import a file or a module that registers parts of the user's own."""
    load_module(name, folder, "plugin")


def _load_file(path: Path, name: str, what: str) -> ModuleType:
    """Import a file that belongs to no package, under a name that no installed module has."""
    module = f"adagq_plugin_{path.stem}"
    known = sys.modules.get(module)
    if known is not None:
        if known.__file__ == str(path):
            return known
        raise ConfigError(f"{what} {name!r}: another file called {path.name} is loaded already; rename one")
    spec = importlib.util.spec_from_file_location(module, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    try:
        with _importing(path.name):
            spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[module]
        raise
    return loaded


def _place(path: Path) -> tuple[Path, str]:
    """Return the folder that a file's package lies in, and the file's dotted name from there."""
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    return root, ".".join(parts)


@contextmanager
def _importing(name: str) -> Iterator[None]:
    _loading.append(name)
    try:
        yield
    finally:
        _loading.pop()


def check_not_importing(call: str) -> None:
    """Refuse a call that a module makes while it is imported: whoever imports it would run it again."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(NO_GUARD)  # a worker process imports the script that started it, which reads this exit code
    if _loading:
        raise ConfigError(f"{_loading[-1]} calls {call} while it is imported: put the call under `{GUARD}`")


def absolute_reference(reference: str, folder: Path, what: str) -> str:
    """Return "module:function" in a form that other processes understand, files with their whole path.

    A module that lies in `folder` is named by its file.
    """
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise ConfigError(f"{what} = {reference!r}: must be 'package.module:function' or 'file.py:function'")
    module, name = match["module"], match["name"]
    if not module.endswith(".py"):
        beside = folder / (module.replace(".", "/") + ".py")
        if not beside.is_file():
            return reference
        module = str(beside)
    return f"{(folder / module).resolve()}:{name}"


def function_of(reference: str, what: str = "module") -> Callable[..., Any]:
    """Return the function of this name; `ConfigError` if its module has none.

    >>> function_of("math:sqrt")(9.0)
    3.0
    """
    module_name, _, name = reference.rpartition(":")
    module = load_module(module_name, what=what)
    function: Any = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if callable(value)]
        raise ConfigError(f"{module_name} has no function {name!r}: {suggestion(name, known)}")
    made: Callable[..., Any] = function
    return made


def reference_to(function: Callable[..., Any]) -> str:
    """Return the name by which another process finds a function of a module's own level."""
    module, name = function.__module__, function.__qualname__
    if "." in name or name == "<lambda>":
        raise ConfigError(f"{name}: other processes can only find a function that stands in its module by itself")
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        if file is None:
            raise ConfigError(f"{name}: other processes cannot find a function that was typed in; put it into a file")
        module = str(Path(file).resolve())
    elif module.startswith("adagq_plugin_"):
        module = str(sys.modules[module].__file__)
    return f"{module}:{name}"
