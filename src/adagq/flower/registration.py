"""`register`: lets a ClientApp take part in runs of `adagq.flower.Compressed`.

    app = ClientApp()
    register(app, "my_app.task:learner")        # by name: this module need not import torch

    @register(app)                              # or the function itself
    def learner(context: Context) -> Learner: …

Flower starts a process for every message. A learner that is registered by name is held by a process that stays (see
`resident`), and Flower's short process only hands the message over; so this module imports nothing heavy. A learner
that is registered as a function is made anew in each of Flower's processes.
"""

import re
from collections.abc import Callable
from typing import Final, overload

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from adagq.core.errors import ConfigError
from adagq.flower.named_learner import Make
from adagq.flower.names import ACTION

REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@overload
def register(app: ClientApp, learner: Make | str) -> None: ...
@overload
def register(app: ClientApp, learner: None = None) -> Callable[[Make], Make]: ...
def register(app: ClientApp, learner: Make | str | None = None) -> Callable[[Make], Make] | None:
    """Let `app` take part in runs of `adagq.flower.Compressed`; other messages of the app stay as they are.

    Parameters
    ----------
    app : ClientApp
        The app that gets the handler.
    learner : Callable[[Context], Learner] or str, optional
        Makes this node's learner: its model and its data. A function, or its name as "package.module:function": then
        model and data stay in memory between messages. Without it `register` is a decorator.
    """
    if learner is None:

        def decorate(make: Make) -> Make:
            register(app, make)
            return make

        return decorate
    if isinstance(learner, str) and not REFERENCE.fullmatch(learner):
        raise ConfigError(f"learner = {learner!r}: must be a function or its name as 'package.module:function'")
    made_by = learner

    def handle(message: Message, context: Context) -> Message:
        from adagq.flower.envelope import opened, sealed

        asked = opened(message.content)
        if isinstance(made_by, str):
            from adagq.flower.handover import reply_of

            return Message(sealed(reply_of(asked, context, made_by)), reply_to=message)
        from adagq.flower.node import answer

        return Message(sealed(answer(asked, context, made_by)), reply_to=message)

    app.train(ACTION)(handle)
    return None
