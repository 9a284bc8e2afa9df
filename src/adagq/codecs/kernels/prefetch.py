"""Bring memory into the cache while something else is computed.

Coding a chunk takes microseconds in which the processor's own prefetcher sees no access to the vector and stops.
"""

from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import types

from adagq.codecs.kernels.common import leaf

LINE = 16  # numbers of 32 bits in a cache line
FOR_READING, SECOND_LEVEL, DATA = 0, 2, 1

_intrinsic: Any = extending.intrinsic


@_intrinsic
def _fetch_line(_typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address.type], kind)
        builder.call(prefetch, [address, number(FOR_READING), number(SECOND_LEVEL), number(DATA)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@leaf
def fetch(array: Any) -> None:
    """Ask for all of a short array of 32-bit numbers."""
    for index in range(0, array.size, LINE):
        _fetch_line(array, index)
