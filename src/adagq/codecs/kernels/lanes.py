"""Four 32-bit numbers side by side in a vector register: what the loop vectoriser cannot make of a rANS decoder.

A `Lanes` value lives inside kernels only. `+ & >> *` work lane by lane. It is plain LLVM vector code, without
instructions of one processor, so every target that Numba knows compiles it.
"""

import operator
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import types
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature

intrinsic: Any = extending.intrinsic
COUNT = 4
WORD_BITS = 16
I4, I32, I64 = ir.IntType(COUNT), ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(I32, COUNT)
UNDEFINED = ir.Constant(VECTOR, ir.Undefined)


class Lanes(types.Type):
    """The Numba type of four uint32."""

    def __init__(self) -> None:
        super().__init__("Lanes")


LANES = Lanes()


@extending.register_model(Lanes)
class _Model(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _lane_by_lane(operation: Any, instruction: str) -> None:
    @infer_global(operation)
    class _Signature(ConcreteTemplate):
        cases = (signature(LANES, LANES, LANES),)

    @extending.lower_builtin(operation, LANES, LANES)
    def _lower(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


for _operation, _instruction in (
    (operator.add, "add"), (operator.mul, "mul"), (operator.and_, "and_"), (operator.rshift, "lshr"),
):  # fmt: skip
    _lane_by_lane(_operation, _instruction)


def _all(value: int) -> Any:
    return ir.Constant(VECTOR, [value] * COUNT)


def _pick(builder: Any, vector: Any, lanes: list[int]) -> Any:
    """Return lanes of the vector in another order; COUNT stands for a zero."""
    return builder.shuffle_vector(vector, ir.Constant(vector.type, None), ir.Constant(VECTOR, lanes))


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


@intrinsic
def spread(_typing: Any, value: Any) -> Any:
    """Return four times the same number."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return _pick(builder, builder.insert_element(UNDEFINED, args[0], I32(0)), [0] * COUNT)

    return LANES(types.uint32), generate


@intrinsic
def load(_typing: Any, array: Any, index: Any) -> Any:
    """Return four neighbours of an array of 32-bit numbers, counted as if it had one dimension."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        return builder.load(builder.bitcast(address, VECTOR.as_pointer()), align=4)

    return LANES(array, types.uint64), generate


@intrinsic
def store(_typing: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Undo `load`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature.args[0], args[0], args[1])
        builder.store(args[2], builder.bitcast(address, VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, types.uint64, LANES), generate


@intrinsic
def gather(_typing: Any, array: Any, indices: Any) -> Any:
    """Return the numbers at four places of an array; by four loads, which are faster than a gather instruction."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = UNDEFINED
        for lane in range(COUNT):
            index = builder.zext(builder.extract_element(args[1], I32(lane)), I64)
            number = builder.load(_address(context, builder, signature.args[0], args[0], index))
            found = builder.insert_element(found, number, I32(lane))
        return found

    return LANES(array, LANES), generate


@intrinsic
def larger(_typing: Any, one: Any, other: Any) -> Any:
    """Return the larger number of each lane."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.select(builder.icmp_unsigned(">", *args), *args)

    return LANES(LANES, LANES), generate


@intrinsic
def any_reaches(_typing: Any, lanes: Any, bounds: Any) -> Any:
    """Return whether a lane is at least its bound."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.icmp_unsigned("!=", builder.bitcast(builder.icmp_unsigned(">=", *args), I4), I4(0))

    return types.boolean(LANES, LANES), generate


@intrinsic
def refill(_typing: Any, lanes: Any, lowest: Any, words: Any, at: Any) -> Any:
    """Shift the next 16-bit word into every lane below `lowest`, the first lane first; return them and the new place.

    Four words are read at once, and each lane takes the one whose number is the count of such lanes before it.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes, lowest, words, at = args
        below = builder.icmp_unsigned("<", lanes, lowest)
        width = builder.select(below, _all(WORD_BITS), _all(0))
        one, two, three = (_pick(builder, width, ([COUNT] * by + [0, 1, 2])[:COUNT]) for by in (1, 2, 3))
        skipped = builder.add(builder.add(one, two), three)  # bits of the words that lanes before this one take
        address = _address(context, builder, signature.args[2], words, at)
        pair = ir.VectorType(I32, 2)
        four = builder.load(builder.bitcast(address, pair.as_pointer()), align=2)
        first, second = (
            builder.shuffle_vector(four, ir.Constant(pair, ir.Undefined), ir.Constant(VECTOR, [half] * COUNT))
            for half in (0, 1)
        )
        half = builder.select(builder.icmp_unsigned(">=", skipped, _all(2 * WORD_BITS)), second, first)
        word = builder.and_(builder.lshr(half, builder.and_(skipped, _all(WORD_BITS))), _all(0xFFFF))
        full = builder.or_(builder.shl(lanes, _all(WORD_BITS)), word)
        taken = builder.zext(builder.ctpop(builder.zext(builder.bitcast(below, I4), I32)), I64)
        filled = builder.select(below, full, lanes)
        return context.make_tuple(builder, signature.return_type, [filled, builder.add(at, taken)])

    return types.Tuple((LANES, types.uint64))(LANES, LANES, words, types.uint64), generate
