"""`adagq fuzz`: damaged payloads against the decoders, malformed messages against the server."""

from importlib.util import find_spec
from typing import Annotated

import typer


def fuzz(
    payloads: Annotated[int, typer.Option(min=0, help="How many damaged payloads to decode.")] = 100_000,
    messages: Annotated[int, typer.Option(min=0, help="How many malformed messages to send to a server.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Draws the damage.")] = 0,
) -> None:
    """Decode damaged payloads, send malformed messages: each must be refused, or do no harm."""
    if payloads:
        from adagq.codecs.fuzzing import run

        run(payloads, seed)
    if messages:
        from adagq.server.message_fuzzing import run as send

        send(messages, seed)
        if find_spec("flwr") is not None:
            from adagq.flower.message_fuzzing import carry

            typer.echo("the same through Flower's records:")
            send(messages, seed, carry)
