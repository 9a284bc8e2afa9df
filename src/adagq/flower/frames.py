"""Messages between two processes of one node, over a stream socket.

    u32 parts │ u64 length of each │ the parts

Records travel in Flower's own serialisation, arrays apart from it as they are: a model of 44 MB is not copied into a
protocol buffer and out again. Both sides are processes of one user and one installation.
"""

import socket
import struct
from collections.abc import Sequence
from typing import Final

from flwr.app import Array, ArrayRecord, Context, RecordDict
from flwr.common.serde import context_from_proto, context_to_proto, recorddict_from_proto, recorddict_to_proto
from flwr.proto.message_pb2 import Context as ContextProto
from flwr.proto.recorddict_pb2 import RecordDict as RecordDictProto

MAX_PARTS: Final = 100_000


def send_parts(connection: socket.socket, parts: Sequence[bytes]) -> None:
    """Send a message of several parts."""
    connection.sendall(struct.pack(f"<I{len(parts)}Q", len(parts), *map(len, parts)))
    for part in parts:
        connection.sendall(part)


def receive_parts(connection: socket.socket) -> list[bytes]:
    """Return the parts of the next message; `EOFError` if the other side is gone before all are there."""
    (count,) = struct.unpack("<I", _exactly(connection, 4))
    if count > MAX_PARTS:
        raise EOFError(f"{count} parts: this is no message of ours")
    lengths = struct.unpack(f"<{count}Q", _exactly(connection, 8 * count))
    return [_exactly(connection, length) for length in lengths]


def records_to_parts(records: RecordDict) -> list[bytes]:
    """Return records as parts: all but the arrays' data, then each array's."""
    hollow = RecordDict()
    for name, record in records.items():
        hollow[name] = ArrayRecord(_without_data(record)) if isinstance(record, ArrayRecord) else record
    return [recorddict_to_proto(hollow).SerializeToString(), *(array.data for array in _arrays(records))]


def records_from_parts(parts: Sequence[bytes]) -> RecordDict:
    """Invert `records_to_parts`."""
    records = recorddict_from_proto(RecordDictProto.FromString(parts[0]))
    for array, data in zip(_arrays(records), parts[1:], strict=True):
        array.data = data
    return records


def context_to_part(context: Context) -> bytes:
    """Return Flower's context as one part."""
    data: bytes = context_to_proto(context).SerializeToString()
    return data


def context_from_part(part: bytes) -> Context:
    """Invert `context_to_part`."""
    return context_from_proto(ContextProto.FromString(part))


def _arrays(records: RecordDict) -> list[Array]:
    """Return all arrays in one order on both sides."""
    named = sorted(records.array_records.items())
    return [array for _, arrays in named for _, array in sorted(arrays.items())]


def _without_data(arrays: ArrayRecord) -> dict[str, Array]:
    return {
        key: Array(dtype=array.dtype, shape=tuple(array.shape), stype=array.stype, data=b"")
        for key, array in arrays.items()
    }


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = bytearray(length)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            raise EOFError("the other process is gone")
        view = view[count:]
    return bytes(data)
