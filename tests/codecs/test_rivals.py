"""`adagq bench codecs --rivals`: other coders on our levels, or a word on how to get them."""

import pytest
from rich.console import Console

from adagq.benchmarks import codecs, rivals
from adagq.core.errors import ConfigError


def test_every_coder_returns_the_levels_and_is_measured() -> None:
    console = Console(width=160, record=True, quiet=False)
    console.print(rivals.rivals_table(codecs.normal(20_000), repeats=1))
    printed = console.export_text()
    for coder in ("ours", "constriction, ANS", "constriction, range coder", "zstandard, level 1", "zstandard, level 3"):
        assert printed.count(coder) == len(rivals.LEVELS)


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "RIVALS", ("constriction", "no_such_coder"))
    with pytest.raises(ConfigError, match="--rivals: not installed: no_such_coder; pip install no_such_coder"):
        codecs.run(elements=1000, rivals=True)
