"""report.html: one page that needs nothing else, drawn by its own script from data inlined below.

The page holds no result of its own: its texts come from `table` and `headline`, its figures from `series`. A
content security policy forbids every request, so what the page shows is what the run wrote.
"""

import json
import re
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import jinja2
import numpy as np
from markupsafe import Markup, escape

from adagq.report.export import table_csv, table_tex
from adagq.report.headline import headline, runner_up
from adagq.report.incidents import client_incidents, incident_counts
from adagq.report.palette import PHASE_INKS, PHASES, inks
from adagq.report.run import Floats, Run
from adagq.report.series import OVER, SEGMENTS, accuracy_curves, heat_maps, round_timelines, to_target
from adagq.report.summary import Summary, is_reference, shown
from adagq.report.table import fastest_method, sheet
from adagq.report.units import bytes_text, digits, percent, pick_seconds, scale_note, seconds_text, time_word

SCRIPTS = ("draw.js", "curves.js", "bars.js", "panels.js", "main.js")
LIVE = "live.js"
# cividis: even in lightness, the same for people with and without colour-vision deficiencies
SHADES = [
    *("#00224e", "#123570", "#3b496c", "#575d6d", "#707173"),
    *("#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"),
]


def environment() -> jinja2.Environment:
    """Return what renders the templates of this folder."""
    loader = jinja2.PackageLoader("adagq.report", ".")
    made = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    made.filters["tied"] = _tied
    return made


def source(name: str) -> str:
    """Return the text of a style sheet or script of this folder."""
    return (files("adagq.report") / name).read_text("utf-8")


def render(run: Run, summary: Summary, now: str = "") -> str:
    """The whole page as text; `now` is the section of a page that is kept fresh (`live`)."""
    facts = summary["run"]
    scripts = (*SCRIPTS, LIVE) if now else SCRIPTS
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            now=Markup(now),
            headline=headline(summary),
            runner_up=runner_up(summary),
            tiles=_tiles(summary),
            facts=facts,
            scale_note=scale_note(facts["payload_scale"]),
            time=time_word(facts["clock"]),
            target=percent(facts["target"]),
            sheet=sheet(summary),
            exports=[
                ("CSV", "table.csv", _data_address("text/csv", table_csv(summary))),
                ("LaTeX", "table.tex", _data_address("application/x-tex", table_tex(summary))),
            ],
            fastest=fastest_method(summary),
            methods=inks(summary["methods"]),
            phases=PHASE_INKS,
            has_ledger=bool(run.ledger),
            failures=incident_counts(run.rows),
            suspects=client_incidents(run.directory),
            config=run.config_text,
            command=_command(summary),
            style=source("page.css"),
            script="\n".join(map(source, scripts)),
            data=_script_json(_data(run, summary)),
        )
    )


def _tied(text: str) -> Markup:
    """Keep numbers with their units, and hyphenated names, on one line."""
    tied = re.sub(r"(\d) (?=(?:%|s|min|h|d|kB|MB|GB)(?:\W|$))", "\\1\u00a0", text)
    words = (
        Markup('<span class="whole">{}</span>').format(word) if "-" in word else escape(word)
        for word in tied.split(" ")
    )
    return Markup(" ").join(words)


def _data(run: Run, summary: Summary) -> dict[str, Any]:
    target = summary["run"]["target"]
    colours = inks(summary["methods"])
    return {
        "target": target,
        "time": time_word(summary["run"]["clock"]),
        "seeds": summary["run"]["seeds"],
        "ledgerSeed": run.ledger_seed,
        "fleetClients": summary["run"]["clients"],
        "phases": PHASES,
        "segments": SEGMENTS,
        "shades": SHADES,
        "methods": [_method(name, record, summary, colours[name]) for name, record in summary["methods"].items()],
        "curves": {
            over: {
                name: {
                    "seeds": [[_short(x), _short(values, 4)] for x, values in curve.seeds],
                    "grid": _short(curve.grid),
                    "mean": _short(curve.mean, 4),
                    "std": _short(curve.std, 4),
                }
                for name, curve in accuracy_curves(run.rows, over, summary["run"]["clients"]).items()
            }
            for over in OVER
        },
        "heats": {
            name: {
                "clients": heat.clients,
                "rounds": heat.first_rounds,
                "last": heat.last_round,
                "values": {key: [_short(line, 3) for line in table] for key, table in heat.values.items()},
            }
            for name, heat in heat_maps(run).items()
        },
        "timelines": {
            name: [
                {
                    "round": line.round,
                    "clients": line.clients,
                    "seconds": [_short(client) for client in line.seconds],
                    "server": _rounded(line.server_seconds),
                    "total": _rounded(line.round_seconds),
                }
                for line in lines
            ]
            for name, lines in round_timelines(run, target).items()
        },
    }


def _method(name: str, record: dict[str, Any], summary: Summary, ink: Any) -> dict[str, Any]:
    numbers = shown(record)
    keys = ("seconds", "rounds", "upload_bytes", "download_bytes", *(f"{phase}_seconds" for phase in PHASES))
    return {
        "name": name,
        "dash": ink.dash,
        "width": ink.width,
        "reference": is_reference(name, summary),
        "reached": record["reached"],
        "reach": {over: _short(needed) if (needed := to_target(record, over)) else None for over in OVER},
        "means": {key: _rounded(numbers[key]["mean"], 9) for key in keys},  # rounded once, where it is shown
        "stds": {key: _rounded(numbers[key]["std"]) for key in keys},
    }


def _tiles(summary: Summary) -> list[tuple[str, str, str]]:
    """Value, label and remark of the few numbers that stand beside the headline."""
    best = fastest_method(summary)
    if best is None:
        return []
    record, run = summary["methods"][best], summary["run"]
    seconds, speedup, tax = record["seconds"], record["speedup"], record["tax"]
    unit, size = pick_seconds([seconds["mean"]])
    spread = _plus(lambda std: f"{digits(std / size, 2)} {unit}", seconds["std"])
    tiles = [(seconds_text(seconds["mean"]), f"to {percent(run['target'])}", spread)]
    if speedup["mean"] is not None and best != run["baseline"]:
        label = f"speed-up over {run['baseline']}"
        tiles.append((f"{speedup['mean']:.2f} ×", label, _plus("{:.2f}".format, speedup["std"])))
    if tax["mean"] is not None:
        spread = _plus("{:.3f}".format, tax["std"])
        remark = f"time over that of the same fleet with free links{'; ' + spread if spread else ''}"
        tiles.append((f"{tax['mean']:.3f}", "communication tax", remark))
    up, down = record["upload_bytes"]["mean"], record["download_bytes"]["mean"]
    tiles.append((bytes_text(up), "uploaded per client", f"{bytes_text(down)} downloaded"))
    return tiles


def _plus(text: Callable[[float], str], std: float) -> str:
    return f"± {text(std)}" if std else ""


def _command(summary: Summary) -> str:
    run = summary["run"]
    methods = [name for name in summary["methods"] if name != run["reference"]]
    if run["clock"] == "measured" and not run["task"]:  # a Flower app of somebody's own
        return "flwr run ."
    if run["clock"] == "measured":
        return f"adagq deploy local config.toml --nodes {run['clients']}"
    if len(summary["methods"]) == 1:
        return "adagq train config.toml"
    return f"adagq compare config.toml --methods {','.join(methods)} --seeds {len(run['seeds'])}"


def _data_address(kind: str, text: str) -> str:
    """Return an address that holds the file itself: the page stays whole wherever it is moved."""
    return f"data:{kind};charset=utf-8,{quote(text)}"


def _rounded(value: float | None, significant: int = 5) -> float | int | None:
    if value is None or not np.isfinite(value):
        return None
    short = float(f"{value:.{significant}g}")
    return int(short) if short.is_integer() else short


def _short(values: Floats | Iterable[float], significant: int = 5) -> list[float | int | None]:
    return [_rounded(float(value), significant) for value in values]


def _script_json(data: dict[str, Any]) -> str:
    """JSON that cannot end its script element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
