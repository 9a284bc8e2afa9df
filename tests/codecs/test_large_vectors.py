"""Vectors past 2^31 elements: places and sizes are 64 bits wide, and what does not fit is said, not wrapped."""

import numpy as np
import pytest

from adagq.codecs.spans import Chunks, span_starts, tensor_sizes
from adagq.codecs.wire import HEADER
from adagq.core.errors import LayoutError
from adagq.core.vectors import Layout

LARGE = 3 * 2**31 + 5


@pytest.mark.parametrize("granularity", ["vector", "tensor", 2**30])
def test_places_behind_two_to_the_31_are_right(granularity):
    sizes = np.array([2**31 - 1, 2**31 + 1, 2**31 + 5], np.int64)
    starts = span_starts(granularity, LARGE, sizes)
    assert starts.dtype == np.int64
    assert starts[-1] == LARGE
    chunks = Chunks.of(starts)
    assert chunks.starts.dtype == chunks.spans.dtype == np.int64
    assert (chunks.sizes > 0).all()
    assert chunks.sizes.max() <= 2048
    assert int(chunks.sizes.sum()) == chunks.elements == LARGE
    assert np.array_equal(starts[:-1], chunks.starts[:-1][np.unique(chunks.spans, return_index=True)[1]])


def test_a_layout_and_the_header_count_past_two_to_the_32():
    layout = Layout.of_sizes([LARGE, 2**32])
    assert layout.elements == LARGE + 2**32
    assert HEADER.unpack(HEADER.pack(b"abc", 1, 2, 3, 4, LARGE, 2**40, 0, bytes(16)))[5] == LARGE


def test_a_tensor_too_large_for_its_section_is_an_error():
    assert tensor_sizes([2**32 - 1, 1], 2**32).tolist() == [2**32 - 1, 1]
    with pytest.raises(LayoutError, match="a tensor of 4294967296 elements"):
        tensor_sizes([2**32], 2**32)
