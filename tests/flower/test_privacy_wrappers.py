"""Flower's own differential privacy around adagq: it refuses, loudly, rather than have no effect."""

from pathlib import Path

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
)

from adagq.codecs import Float32
from adagq.core.errors import ConfigError
from adagq.core.messages import Sync, Task
from adagq.flower import Compressed, register
from adagq.flower.names import ACTION
from adagq.flower.node import RUN
from adagq.flower.records import write
from loopback import LoopbackGrid
from toy import LAYOUT, ToySpec


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: DifferentialPrivacyServerSideFixedClipping(inner, 1.0, 1.0, 4),
        lambda inner: DifferentialPrivacyClientSideFixedClipping(inner, 1.0, 1.0, 4),
        lambda inner: DifferentialPrivacyServerSideAdaptiveClipping(inner, 0.1, 4),
        lambda inner: DifferentialPrivacyClientSideAdaptiveClipping(inner, 0.1, 4),
    ],
)
def test_a_wrapped_strategy_refuses_to_start(wrap, tmp_path: Path) -> None:
    grid = LoopbackGrid(ToySpec().build(), tmp_path)
    with pytest.raises(
        ConfigError,
        match=r"differential privacy would have no effect; nothing was trained. Use the strategy's own: privacy=",
    ):
        wrap(Compressed("qsgd")).start(grid, initial_arrays(), num_rounds=1)


def initial_arrays() -> ArrayRecord:
    population = ToySpec().build()
    state = LAYOUT.unpack(*population.initial(5))
    return ArrayRecord({name: Array(array) for name, array in state.items()})


@pytest.mark.parametrize(
    "mod",
    [fixedclipping_mod, adaptiveclipping_mod, LocalDpMod(1.0, 1.0, 1.0, 1e-5)],
    ids=["fixedclipping", "adaptiveclipping", "localdp"],
)
@pytest.mark.parametrize("what", ["introduction", "sync", "sync and task", "task"])
def test_a_node_with_a_privacy_mod_answers_nothing_but_errors(mod, what: str, tmp_path: Path) -> None:
    app = ClientApp(mods=[mod])
    register(app, lambda context: ToySpec().build().learner(0))
    content = RecordDict({RUN: ConfigRecord({"run": "a-run", "digest": ""})})
    vector, buffers = ToySpec().build().initial(5)
    if "sync" in what:
        write(content, Sync(0, 1, 0, -1, (Float32().encode(vector),), Float32().encode(buffers)))
    if "task" in what:
        write(content, Task(0, 1, Float32(), 1, 0.1, 5))
    context = Context(1, 1, {"adagq-folder": str(tmp_path)}, RecordDict(), {})
    message = Message(content, dst_node_id=1, message_type=f"train.{ACTION}")
    try:
        reply = app(message, context)
    except (TypeError, ValueError):
        return  # the node's process reports it as an error
    assert reply.has_error()
