"""The papers around the code say what is true: the README runs, links lead somewhere, pins cover what is required."""

import doctest
import re
import tomllib
from pathlib import Path

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import adagq
from adagq.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [path.relative_to(ROOT).as_posix() for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])]
PIN = re.compile(r"([A-Za-z0-9._-]+)==([0-9][0-9.]*)")  # no local versions, no addresses


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    matches = [PIN.fullmatch(line) or pytest.fail(f"not a plain pin: {line}") for line in lines if line[:1] != "#"]
    return {canonicalize_name(match[1]): match[2] for match in matches}


def test_the_readme_runs():
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted >= 5
    assert result.failed == 0


def test_the_readme_shows_the_example_as_it_is():
    example = (ROOT / "examples" / "compare.py").read_text("utf-8").partition('"""\n\n')[2].strip()
    assert example in (ROOT / "README.md").read_text("utf-8")


def commands():
    """The commands that the README shows, without their comments."""
    lines = re.findall(r"^    (adagq .+)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    return [line.partition("#")[0].split() for line in lines]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_commands_of_the_readme_are_understood(command):
    """Every command and option exists; nothing is run."""
    tree = typer.main.get_command(app)
    words = command[1:]
    while hasattr(tree, "commands"):
        tree = tree.commands[words.pop(0)]
    tree.make_context(command[-1], list(words))


def described(tree, name="adagq"):
    """Every command with its parameters, groups left out."""
    for key, part in getattr(tree, "commands", {}).items():
        yield from described(part, f"{name} {key}")
    if not hasattr(tree, "commands"):
        yield name, tree


def test_every_argument_and_option_has_its_help():
    tree = typer.main.get_command(app)
    silent = [f"{name}: {part.name}" for name, command in described(tree) for part in command.params if not part.help]
    assert silent == []


def test_the_citation_names_this_version():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version: {adagq.__version__}\n" in citation


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / page).read_text("utf-8"))
    assert [target for target in targets if not ((ROOT / page).parent / target).exists()] == []


def test_pins_cover_every_requirement():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = [Requirement(text) for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]
    pinned = pins()
    for requirement in required:
        if requirement.name == project["name"]:  # extras of its own
            required += [
                Requirement(text) for name in requirement.extras for text in project["optional-dependencies"][name]
            ]
            continue
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_every_install_in_the_makefile_is_constrained():
    installs = [line for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if "pip install" in line]
    assert installs
    assert all("-c constraints.txt" in line for line in installs)


def test_every_page_stands_once_in_the_sites_menu() -> None:
    pages = re.findall(r"^ +- .*?(\S+\.(?:md|ipynb))$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert len(pages) > 10
    assert sorted(set(pages)) == sorted(pages)
