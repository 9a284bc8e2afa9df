"""Examples in docstrings as code on the site: Markdown would read `>>>` as a quotation."""

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts a fence around every run of lines that begins with `>>>`."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return the docstring with its examples in fences; an example ends with an empty line."""
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        if not inside and line.startswith(">>>"):
            inside = True
            lines.append("```python")
        elif inside and not line.strip():
            inside = False
            lines.append("```")
        lines.append(line)
    return "\n".join(lines[:-1] if not text.endswith("\n") else lines)
