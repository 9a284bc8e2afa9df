"""The exception tree is the one drawn in the docstring."""

import re

import pytest

from adagq.core import errors

CLASSES = {n: c for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, Exception)}


def test_docstring_draws_the_tree() -> None:
    drawn = re.findall(r"^ {4}(?:[├└]── )?(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    assert drawn[0] == "AdagqError"
    assert sorted(drawn) == sorted(CLASSES)


@pytest.mark.parametrize("name", sorted(set(CLASSES) - {"AdagqError"}))
def test_all_are_direct_children(name: str) -> None:
    assert CLASSES[name].__bases__[0] is errors.AdagqError
    assert CLASSES[name].__doc__


@pytest.mark.parametrize("name", ["ConfigError", "LayoutError", "NonFiniteError", "PayloadError"])
def test_wrong_values_are_value_errors_too(name: str) -> None:
    assert issubclass(CLASSES[name], ValueError)


def test_every_class_is_raised_somewhere() -> None:
    """A class that nothing raises is a promise that nothing keeps."""
    from pathlib import Path

    source = "\n".join(p.read_text("utf-8") for p in Path(errors.__file__).parents[1].rglob("*.py"))
    for name in set(CLASSES) - {"AdagqError"}:
        assert re.search(rf"raise {name}\(|\b{name}\(f?\"", source), name
