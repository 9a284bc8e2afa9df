"""Pages of the site that are written elsewhere: README and its neighbours, the commands' help, every settings key.

Links that leave the site (results, examples) become plain text: the site is read without the repository.
"""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
FIGURES = {"results/small/fig6.svg": "figures/small-fig6.svg"}  # that pages show; all other results stay outside
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    from mkdocs.structure.files import File

    made = {name: (ROOT / source).read_text("utf-8") for source, name in PAGES.items()}
    made |= {"commands.md": commands_page(), "settings.md": settings_page()}
    made["notebooks/compare.md"] = notebook_page(ROOT / "docs" / "notebooks" / "compare.ipynb")
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for source, name in FIGURES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links between the repository's files into links between the site's pages."""
    source = {name: ROOT / path for path, name in PAGES.items()}.get(page.file.src_uri)
    folder = source.parent if source else (ROOT / "docs" / page.file.src_uri).parent

    def moved(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        place = (folder / path).resolve()
        name = (PAGES | FIGURES).get(_under(place, ROOT)) or _under(place, ROOT / "docs")
        if files.get_file_from_path(name) is None:
            return text if place.exists() else match[0]  # what leads nowhere is mkdocs' to warn of
        up = "../" * page.file.src_uri.count("/")
        return f"{mark}[{text}]({up}{name}{'#' + anchor if anchor else ''})"

    return LINK.sub(moved, markdown)


def commands_page() -> str:
    """Return the help of every command."""
    import typer

    from adagq.cli import app

    def described(command: Any, name: str, level: int) -> list[str]:
        lines = [f"{'#' * level} {name}", "", command.help or "", ""]
        rows = [
            (", ".join(option.opts) if option.param_type_name == "option" else option.name.upper(), option.help or "")
            for option in command.params
            if option.name not in ("help", "install_completion", "show_completion")
        ]
        if rows:
            lines += ["| | |", "| --- | --- |", *(f"| `{left}` | {_cell(right)} |" for left, right in rows), ""]
        for key, part in getattr(command, "commands", {}).items():
            lines += described(part, f"{name} {key}", level + 1)
        return lines

    return "\n".join(described(typer.main.get_command(app), "adagq", 1))


def settings_page() -> str:
    """Return every settings key with its type, default and meaning."""
    from adagq.experiments.settings_help import settings_under

    lines = ["# Settings", "", "In a TOML file (`adagq init` writes one) or `--set key=value`.", ""]
    lines += ["| key | default | meaning |", "| --- | --- | --- |"]
    for setting in settings_under():
        default = "–" if setting.default in (None, (), {}) else f"`{setting.default}`"
        about = ", ".join(part for part in (setting.kind, setting.unit) if part)
        meaning = f"{setting.meaning} ({about})" if setting.meaning else about
        lines.append(f"| `{setting.key}` | {_cell(default)} | {_cell(meaning)} |")
    return "\n".join(lines) + "\n"


def notebook_page(path: Path) -> str:
    """Return a notebook as a page: its texts, its code, and the outputs that are text."""
    page = io.StringIO()
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        page.write(f"{text}\n\n" if cell["cell_type"] == "markdown" else f"```python\n{text}\n```\n\n")
        for output in cell.get("outputs", ()):
            if shown := "".join(output.get("text", ())):
                page.write(f"```text\n{shown.rstrip()}\n```\n\n")
    return page.getvalue()


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _under(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else ""
