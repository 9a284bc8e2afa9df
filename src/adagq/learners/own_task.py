"""A task of the user's own: a function that returns models, data and split as one `Population`.

    def build(clients: int = 4, seed: int = 0) -> adagq.TorchPopulation: …

    adagq compare --task my.py:build

The function is called in every worker and on every node, so it must return the same for the same arguments. `clients`
and `seed` are passed if it takes them.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from adagq.client.learner import Population
from adagq.core.errors import ConfigError
from adagq.core.modules import absolute_reference, function_of

OWN_KEYS: Final = ("function", "clients")  # of the settings' table
MEMBERS: Final = tuple(name for name in vars(Population) if not name.startswith("_"))


def is_own(task: Any) -> bool:
    """Whether settings name a task of the user's own: `task = "my.py:build"`, or a table with `function`."""
    return isinstance(task, str) or (isinstance(task, Mapping) and task.get("function") is not None)


def own_table(task: Any, asks: bool, folder: Path) -> dict[str, Any]:
    """Return the table of such a task; `asks`: it has as many clients as its function makes, unless it says so."""
    table = {"function": task} if isinstance(task, str) else dict(task)
    for key in table:
        if key not in OWN_KEYS:
            raise ConfigError(f"task.{key}: has no effect with task.function, which makes model, data and split itself")
    if isinstance(table["function"], str):
        table["function"] = absolute_reference(table["function"], folder, "task.function")
        if asks and "clients" not in table and (clients := usual_clients(table["function"])) is not None:
            table["clients"] = clients
    return table


def own_population(reference: str, clients: int, seed: int) -> Population:
    """Call the function and check that it returned a population of so many clients."""
    function = function_of(reference, "task")
    taken = _parameters(function)
    given = {name: value for name, value in (("clients", clients), ("seed", seed)) if name in taken}
    population = _checked(reference, function(**given))
    if population.clients != clients:
        remedy = "use it" if "clients" in taken else "let it take `clients`, or ask for as many as it has"
        raise ConfigError(f"{reference} made {population.clients} clients where {clients} are asked for: {remedy}")
    return population


def usual_clients(reference: str) -> int | None:
    """Return how many clients the function makes unless it is told; None if it must be told."""
    function = function_of(reference, "task")
    taken = _parameters(function)
    if "clients" not in taken:
        return _checked(reference, function()).clients
    default = taken["clients"].default
    return default if isinstance(default, int) else None


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return what a function takes; one that takes any keyword takes ours."""
    found = dict(inspect.signature(function).parameters)
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in found.values()):
        ours = (inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("clients", "seed"))
        found = {one.name: one for one in ours} | found
    return found


def _checked(reference: str, made: Any) -> Population:
    missing = [name for name in MEMBERS if not hasattr(type(made), name) and not hasattr(made, name)]
    if missing:
        raise ConfigError(
            f"{reference} returned {type(made).__name__}, which has no {missing[0]!r}: it must return a population, "
            "such as adagq.TorchPopulation or adagq.ArrayPopulation"
        )
    population: Population = made
    return population
