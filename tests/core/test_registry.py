"""Registries: names found, near names suggested, plugins loaded once."""

from pathlib import Path
from typing import Any

import pytest

from adagq.core.errors import ConfigError
from adagq.core.modules import load_plugin
from adagq.core.registry import Registry


def numbers() -> Registry[Any]:
    registry: Registry[Any] = Registry("number", group="adagq.tests.none")
    registry.add("one", 1)
    registry.register("two")(2)
    return registry


def test_lists_parts_in_order_and_finds_them_by_name() -> None:
    registry = numbers()
    assert (list(registry), registry["two"], "three" in registry, len(registry)) == (["one", "two"], 2, False, 2)
    assert registry.name_of(registry["one"]) == "one"


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown number 'tow': did you mean 'two'\? Known: one, two"):
        numbers()["tow"]


def test_a_name_is_taken_once() -> None:
    registry = numbers()
    registry.add("one", registry["one"])
    with pytest.raises(ConfigError, match="already"):
        registry.add("one", 11)


def test_a_plugin_file_is_imported_once(tmp_path: Path) -> None:
    (tmp_path / "plugged_in.py").write_text("import sys\nsys.plugged = getattr(sys, 'plugged', 0) + 1\n")
    import sys

    load_plugin("plugged_in.py", tmp_path)
    load_plugin("plugged_in.py", tmp_path)
    assert sys.plugged == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["absent.py", "no.such.module"])
def test_an_absent_plugin_is_the_users_mistake(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="plugin"):
        load_plugin(name, tmp_path)
