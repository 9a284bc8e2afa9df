"""One frozen tree of settings from TOML and `--set key=value`; `default.toml` beside this file is the demo.

Every key is checked: an unknown one fails and names the nearest known one, a bad value names its key. The
resolved tree is written back as TOML into the run directory, so a run can be repeated from its own folder.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from adagq.client.optimizers import SGD, client_optimizer_of
from adagq.core.errors import ConfigError
from adagq.core.modules import load_plugin
from adagq.core.settings import Number, Text, Whole, config_error, keys_of, unknown_key
from adagq.learners import LearningTask
from adagq.learners.own_task import OWN_KEYS, is_own, own_table
from adagq.methods.table import Method, compared
from adagq.methods.variants import Variant, find, rows_of
from adagq.rounds.loops import loop_of
from adagq.server.optimizers import Plain, optimizer_of
from adagq.server.privacy import Privacy
from adagq.server.robust import AGGREGATES
from adagq.simulation.fleet import FleetConfig, fleet_config, load_fleet

DEFAULT: Final = files("adagq.experiments") / "default.toml"
FOLLOWING: Final = ("task.seed", "task.plugins")  # keys that follow from `seed` and `plugins`
Positive = Annotated[Whole, Field(ge=1)]
NotNegative = Annotated[Whole, Field(ge=0)]


class Training(BaseModel):
    """Who trains when, how fast, and when to stop."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Annotated[Number, Field(gt=0, le=1)] = 0.9  # accuracy on the common test set
    max_rounds: Positive = 200  # a run ends here if it has not reached the target
    extra_rounds: NotNegative = 0  # after the target, to watch the plateau
    learning_rate: Annotated[Number, Field(gt=0)] = 0.01  # of the clients' SGD in the first round
    decay: Annotated[Number, Field(gt=0, le=1)] = 0.995  # of the learning rate, per round
    participants: NotNegative = 0  # clients sampled per round; 0 = all
    # A round; with 1 levels are decided before this round's reports. "auto": 1 where fleet.exchange_seconds is dear.
    exchanges: Annotated[Whole, Field(ge=1, le=2)] | Literal["auto"] = 2
    deadline_seconds: Annotated[Number, Field(gt=0)] | None = None  # of a round; not set: from recent ones
    deadline_factor: Annotated[Number, Field(ge=1)] = 1.5  # times what recent rounds needed
    min_updates: Positive = 1  # a round with fewer is repeated
    norm_bound: Annotated[Number, Field(ge=0)] = 5.0  # times the median norm: a larger update is cut to that; 0 = off
    weight_bound: Annotated[Number, Field(ge=0)] = 5.0  # times the median of the examples: more do not count; 0 = off
    aggregate: Text = "mean"  # mean, clipped, trimmed-mean, median or krum: what a round makes of its updates
    byzantine_share: Annotated[Number, Field(ge=0, lt=0.5)] = 0.3  # of the clients: trimmed-mean and krum leave out
    exclude_after: NotNegative = 0  # rounds with a refused or cut message: then a client pauses; 0 = never
    privacy: Privacy = Privacy()  # differential privacy of each client

    @model_validator(mode="after")
    def _known_aggregate(self) -> "Training":
        AGGREGATES[self.aggregate]  # an unknown one is a ConfigError that names the nearest
        self.privacy.check(self.aggregate)
        return self


class Config(BaseModel):
    """Everything that decides a run's rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plugins: tuple[Text, ...] = ()  # files (.py) and modules that register parts of your own
    seed: NotNegative = 0  # draws clients, data, model and every rounding: same seed, same rows
    seeds: Positive = 1  # repeats: seed, seed + 1, …
    method: Text = "adagq-auto"  # of `train`
    methods: tuple[Text, ...] = compared()  # of `compare`
    variants: dict[str, Variant] = {}  # rows of your own
    server_optimizer: dict[str, Any] | None = None  # such as { kind = "nesterov", momentum = 0.7, rate = 1.0 }
    client_optimizer: dict[str, Any] | None = None  # such as { kind = "fedprox", mu = 0.1 }
    payload_scale: Annotated[Number, Field(gt=0)] = 1.0  # a small model's payloads count so many times
    training: Training = Training()
    task: LearningTask = LearningTask()
    fleet: FleetConfig = FleetConfig()

    @model_validator(mode="after")
    def _consistent(self) -> "Config":
        for name in (self.method, *self.methods):
            row = self.row(name)
            loop_of(row)  # unknown loops, knobs and aggregates are a ConfigError that names the nearest
            aggregate = row.aggregate or self.training.aggregate
            AGGREGATES[aggregate]
            self.training.privacy.check(aggregate, self.task.clients)
        if self.training.participants > self.task.clients:
            raise ValueError(
                f"training.participants = {self.training.participants}: there are {self.task.clients} clients"
            )
        return self

    def row(self, name: str) -> Method:
        """Return the method called `name`, from `variants` or from the table of methods.

        `server_optimizer` and `client_optimizer` are for rows without one of their own; the reference of the tax stays
        plain.
        """
        row = find(name, rows_of(self.variants))
        if self.client_optimizer is not None and not row.free_links and row.client_optimizer == SGD():
            row = replace(row, client_optimizer=client_optimizer_of(self.client_optimizer))
        if self.server_optimizer is None or row.free_links or row.optimizer != Plain():
            return row
        return replace(row, optimizer=optimizer_of(self.server_optimizer))


def load_config(path: Path | None = None, settings: Sequence[str] = ()) -> Config:
    """Return the tree from a TOML file on top of the defaults, with `key=value` settings on top of both."""
    tree = {} if path is None else read_toml(path)
    # Whose task it is decides which defaults count.
    own = [setting for setting in settings if setting.partition("=")[0].strip() in ("task", "task.function")]
    before = tree.get("task")
    for setting in own:
        _set(tree, setting)
    if isinstance(tree.get("task"), str) and isinstance(before, Mapping) and "clients" in before:
        tree["task"] = {"function": tree["task"], "clients": before["clients"]}
    tree = on_defaults(tree)
    for setting in settings:
        if setting not in own:
            _set(tree, setting)
    return resolve(tree, path.parent if path else Path())


def on_defaults(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings on top of default.toml, so that an empty file equals no file.

    A fleet is taken as a whole, and so is a task of the user's own; the default's `partition_value` and `payload_scale`
    count for the default's partition and model alone.
    """
    defaults = tomllib.loads(DEFAULT.read_text("utf-8"))
    if isinstance(tree.get("task"), str):
        tree = {**tree, "task": {"function": tree["task"]}}
    if is_own(tree.get("task")):
        del defaults["task"]
    if isinstance(tree.get("task"), Mapping) and "partition" in tree["task"]:
        del defaults["task"]["partition_value"]
    result = merged(defaults, tree)
    if "fleet" in tree:
        result["fleet"] = tree["fleet"]
    given, usual = result["task"], defaults.get("task", {})
    alike = isinstance(given, Mapping) and all(given.get(key) == usual.get(key) for key in ("data", "model", "width"))
    if "payload_scale" not in tree and (is_own(given) or not alike):
        del result["payload_scale"]
    return result


def merged(tree: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `tree` with `changes` on top, tables merged key by key."""
    result = dict(tree)
    for key, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def resolve(tree: Mapping[str, Any], folder: Path = Path()) -> Config:
    """Return the checked settings; files that they name are relative to `folder`."""
    task = tree.get("task", {})
    for name in task if isinstance(task, Mapping) else ():
        if f"task.{name}" in FOLLOWING:
            raise unknown_key(f"task.{name}", KEYS)
    plugins = _plugins(tree.get("plugins", ()), folder)
    if is_own(task):
        fleet = tree.get("fleet", {})
        task = own_table(task, isinstance(fleet, Mapping) and not {"clients", "client"} & fleet.keys(), folder)
    fleet = _fleet(tree.get("fleet", {}), task, folder)
    given = {"clients": _size(fleet), "plugins": plugins}
    whole = dict(task) | given if isinstance(task, Mapping) else task
    try:
        return Config.model_validate(dict(tree) | {"plugins": plugins, "fleet": fleet, "task": whole})
    except ValidationError as invalid:
        raise config_error(invalid, Config) from None


def _plugins(plugins: Any, folder: Path) -> tuple[str, ...]:
    """Load the plugins and return their names, files as absolute paths: the other settings may name their parts."""
    if not isinstance(plugins, list | tuple) or not all(isinstance(plugin, str) for plugin in plugins):
        raise ConfigError(f"plugins = {plugins!r}: must be an array of .py files and modules")
    names = tuple(str((folder / name).resolve()) if name.endswith(".py") else name for name in plugins)
    for name in names:
        load_plugin(name)
    return names


def _fleet(fleet: Any, task: Any, folder: Path) -> FleetConfig:
    """Return the fleet of a table, of a TOML file or by name; the task may say how many clients it has."""
    wanted = task.get("clients") if isinstance(task, Mapping) else None
    if isinstance(fleet, str):
        config = FleetConfig() if fleet == "paper" else load_fleet(folder / fleet)
    elif isinstance(fleet, Mapping):
        alike = wanted is not None and not {"clients", "client"} & fleet.keys()
        config = fleet_config({**fleet, "clients": wanted} if alike else fleet, folder)
    else:
        raise ConfigError(f"fleet = {fleet!r}: must be a table, 'paper' or the path of a TOML file")
    if wanted is not None and wanted != _size(config):
        raise ConfigError(f"task.clients = {wanted!r}: the fleet has {_size(config)} clients")
    return config


def _size(fleet: FleetConfig) -> int:
    return sum(group.count for group in fleet.client) if fleet.client else fleet.clients


def to_toml(config: Config) -> str:
    """Return the resolved tree as TOML; keys without a value are left out."""
    import tomli_w

    left_out = {"seed", "plugins"}
    if config.task.function is not None:
        left_out = {field.name for field in fields(config.task)} - set(OWN_KEYS)
    tree = config.model_dump(mode="json", exclude={"task": left_out})
    return tomli_w.dumps(_plain(tree))


def _plain(value: Any) -> Any:
    """TOML has no null: a key without a value is left out."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items() if part is not None}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file; ConfigError says what is wrong with it."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read ({reason})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}") from None


def _set(tree: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {setting!r}: expected key=value, such as training.target=0.95")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is a string
    *tables, leaf = key.strip().split(".")
    for table in tables:
        tree = tree.setdefault(table, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {setting!r}: {table!r} is not a table")
    tree[leaf] = value


KEYS: Final = tuple(key for key in keys_of(Config) if key not in FOLLOWING)
