"""A task as plain JSON values, for checkpoints of loops that are left while clients train."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from adagq.codecs.registry import codec_from_plain, codec_to_plain
from adagq.core.messages import Task


def task_to_plain(task: Task) -> dict[str, Any]:
    """Return the fields of a task, its codec by kind and knobs."""
    fields = {field.name: getattr(task, field.name) for field in dataclasses.fields(task)}
    return fields | {"codec": codec_to_plain(task.codec)}


def task_from_plain(plain: Mapping[str, Any]) -> Task:
    """Invert `task_to_plain`."""
    return Task(**{**plain, "codec": codec_from_plain(plain["codec"])})
