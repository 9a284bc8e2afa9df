"""CODECS: every codec by its kind, filled by the files that define them.

    @register("qsgd", tag=3, decoder=add_qsgd, examples=_examples)
    @dataclass(frozen=True, slots=True)
    class QSGD(Encoder): …

One table serves the decoder (by tag), `inspect`, configs and messages (by kind, as plain data), the fuzzer, the
warm-up of the kernels and the contract tests (by examples). A package adds a codec by an entry point of the group
"adagq.codecs" that is called like its kind. Tags 1 to 63 are adagq's, 64 to 255 are free for others. A wrapper such as
error feedback has no tag: its payloads are those of the codec inside.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from adagq.codecs.wire import Frame
from adagq.core.codec import Codec
from adagq.core.errors import AdagqError, ConfigError
from adagq.core.registry import Registry, suggestion
from adagq.core.vectors import FloatVector

Adder = Callable[[Frame, FloatVector, float, int], None]  # (frame, out, weight, threads): out += weight * vector
Reader = Callable[[Frame], FloatVector]
Examples = tuple[Codec, ...] | Callable[[], tuple[Codec, ...]]
CodecT = TypeVar("CodecT")


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A registered codec."""

    kind: str
    codec: Any  # the class
    tag: int | None
    add: Adder | None  # decodes payloads with this tag; checks everything before it touches `out`
    read: Reader | None  # returns the vector where it stands in the payload as it is
    make_examples: Examples

    @property
    def examples(self) -> tuple[Codec, ...]:
        """Configurations that stand for all: tests, fuzzer and warm-up go through them."""
        return self.make_examples() if callable(self.make_examples) else self.make_examples


CODECS: Final[Registry[Entry]] = Registry("codec", group="adagq.codecs")
_BY_TAG: Final[dict[int, Entry]] = {}
_BY_CLASS: Final[dict[type, Entry]] = {}


def register(
    kind: str,
    *,
    tag: int | None = None,
    decoder: Adder | None = None,
    reader: Reader | None = None,
    examples: Examples = (),
) -> Callable[[type[CodecT]], type[CodecT]]:
    """Return a decorator that registers a frozen dataclass as the codec called `kind`."""
    if (tag is None) != (decoder is None) or (tag is not None and not 1 <= tag <= 255):
        raise ConfigError(f"codec {kind!r}: tag = {tag}, allowed are 1 to 255 with a decoder, or neither")

    def add(codec: type[CodecT]) -> type[CodecT]:
        entry = Entry(kind, codec, tag, decoder, reader, examples)
        if tag in _BY_TAG:
            raise ConfigError(f"codec {kind!r}: tag {tag} belongs to {_BY_TAG[tag].kind!r}; choose another")
        CODECS.add(kind, entry)
        _BY_CLASS[codec] = entry
        if tag is not None:
            _BY_TAG[tag] = entry
        return codec

    return add


def entries() -> tuple[Entry, ...]:
    """Return all codecs, those of other packages included."""
    for kind, entry in CODECS.items():
        if not isinstance(entry, Entry):
            raise ConfigError(f"entry point {kind!r} of the group adagq.codecs registers no codec of this kind")
    return tuple(CODECS.values())


def entry_of_tag(tag: int) -> Entry | None:
    """Return the codec whose payloads carry this tag."""
    if tag not in _BY_TAG:
        entries()  # a codec of another package may be known by its entry point alone
    return _BY_TAG.get(tag)


def entry_of(codec: object) -> Entry:
    """Return the entry of a codec, by its class."""
    try:
        return _BY_CLASS[type(codec)]
    except KeyError:
        known = ", ".join(CODECS)
        raise ConfigError(f"{type(codec).__name__} is not registered as a codec; known: {known}") from None


def known_tags() -> str:
    """Return `tag (kind), …` of all codecs, for messages."""
    entries()
    return ", ".join(f"{tag} ({entry.kind})" for tag, entry in sorted(_BY_TAG.items()))


def codec_to_plain(codec: Codec) -> dict[str, Any]:
    """Return a codec as plain data: its kind and its knobs, codecs inside it the same way.

    >>> from adagq.codecs import TopK
    >>> codec_to_plain(TopK(fraction=0.5))
    {'kind': 'topk', 'fraction': 0.5, 'values': 'float32', 'indices': 'coded'}
    """
    entry = entry_of(codec)
    knobs = {field.name: getattr(codec, field.name) for field in dataclasses.fields(entry.codec)}
    nested = {name: codec_to_plain(value) if isinstance(value, Codec) else value for name, value in knobs.items()}
    return {"kind": entry.kind} | nested


def codec_from_plain(plain: Mapping[str, Any]) -> Codec:
    """Return the codec that `codec_to_plain` wrote; knobs that are left out have their defaults.

    >>> codec_from_plain({"kind": "qsgd", "levels": 7}).levels
    7
    """
    if not isinstance(plain, Mapping):
        raise ConfigError(f"{plain!r} is no codec: must be a table with a kind, one of {', '.join(CODECS)}")
    knobs = dict(plain)
    if not isinstance(kind := knobs.pop("kind", None), str):
        raise ConfigError(f"kind = {kind!r}: a codec needs a kind, one of {', '.join(CODECS)}")
    codec = CODECS[kind].codec
    known = [field.name for field in dataclasses.fields(codec)]
    for name in knobs:
        if name not in known:
            has = ", ".join(known) or "no settings"
            raise ConfigError(f"{kind} has no {name!r}: {suggestion(name, known)} It has {has}")
    given = {name: _knob(value) for name, value in knobs.items()}
    try:
        made: Codec = codec(**given)
    except AdagqError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{kind}: {error}") from None
    return made


def _knob(value: Any) -> Any:
    if isinstance(value, Mapping):
        return codec_from_plain(value)
    return tuple(value) if isinstance(value, list) else value
