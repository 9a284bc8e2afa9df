"""Settings: the rules of their types, and the one line that a mistake is answered with."""

import pickle
from dataclasses import replace
from typing import Annotated, Literal

import pytest
from pydantic import Field

from adagq.core.errors import ConfigError
from adagq.core.settings import Each, Flag, Number, Span, Text, Whole, keys_of, settings


@settings("house.rooms")
class Room:
    doors: Annotated[Whole, Field(ge=1)] = 1
    name: Text | None = None


@settings("house")
class House:
    height: Annotated[Number, Field(gt=0, lt=100)] = 3.0
    warm: Flag = True
    colour: Literal["red", "blue"] = "red"
    width: Annotated[Span, Each(gt=0, le=9)] = 1.0
    rooms: tuple[Room, ...] = ()
    best: Room = Room()
    floors: Annotated[Whole, Field(ge=1)] | None = None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"height": 100}, "house.height = 100: must be a number > 0 and < 100"),
        ({"height": True}, "house.height = True: must be a number > 0 and < 100"),
        ({"height": "3"}, "house.height = '3': must be a number > 0 and < 100"),
        ({"warm": 1}, "house.warm = 1: must be true or false"),
        ({"colour": "green"}, "house.colour = 'green': must be one of 'red', 'blue'"),
        ({"width": (5, 4)}, "house.width = [5, 4]: must be a number or [low, high] > 0 and <= 9"),
        ({"width": float("nan")}, "house.width = nan: must be a number or [low, high] > 0 and <= 9"),
        ({"floors": 0}, "house.floors = 0: must be a whole number >= 1"),
        ({"rooms": [{}, {"doors": 0}]}, "house.rooms[1].doors = 0: must be a whole number >= 1"),
        ({"rooms": [{"name": 3}]}, "house.rooms[0].name = 3: must be text"),
        ({"rooms": 3}, "house.rooms = 3: must be an array"),
        ({"best": 3}, "house.best = 3: must be a table"),
        ({"best": {"dors": 3}}, "unknown key 'house.best.dors': did you mean 'house.best.doors'?"),
        ({"doors": 3}, "unknown key 'house.doors': did you mean 'house.floors'?"),
    ],
)
def test_a_mistake_names_key_value_and_range(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        House(**values)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_settings_are_values() -> None:
    house = House(rooms=(Room(doors=2),), width=[1, 2])  # type: ignore[arg-type]
    assert house.width == (1.0, 2.0)
    assert pickle.loads(pickle.dumps(house)) == house
    assert hash(replace(house, height=2.0)) != hash(house)
    with pytest.raises(ConfigError, match=r"house\.height = 0"):
        replace(house, height=0.0)
    with pytest.raises(AttributeError):
        house.height = 1.0  # type: ignore[misc]
    assert repr(Room(2)) == "Room(doors=2, name=None)"


def test_keys_of_tables_have_dots() -> None:
    assert [key for key in keys_of(House) if "best" in key] == ["best", "best.doors", "best.name"]
