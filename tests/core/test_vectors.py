"""`Layout`: named tensors to one vector and buffers, and back, checked."""

import numpy as np
import pytest
import torch

from adagq.core.errors import LayoutError
from adagq.core.vectors import Layout, Tensor


def model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(16, 5), torch.nn.PReLU()
    )


ARRAYS = {
    "w": np.arange(6, dtype=np.float32).reshape(2, 3),
    "scalar": np.float32(2.5),
    "wide": np.array([1.5, -2.0]),
    "none": np.zeros((0, 4), np.float32),
    "steps": np.array([3, 4], np.int64),
    "flags": np.array([True, False]),
}


def test_torch_state_dict_there_and_back() -> None:
    net = model()
    net.train()
    net(torch.randn(7, 3, 4, 4))  # moves the statistics
    state = net.state_dict()
    layout = Layout.of(state)
    vector, buffers = layout.pack(state)
    assert layout.elements == vector.size == sum(p.numel() for p in net.parameters())
    assert layout.sizes == tuple(p.numel() for p in net.parameters())
    assert layout.shapes == tuple(tuple(p.shape) for p in net.parameters())
    assert [t.name for t in layout.tensors if t.buffer] == ["1.running_mean", "1.running_var", "1.num_batches_tracked"]
    assert layout.buffer_elements == buffers.size == 9
    assert vector.dtype == buffers.dtype == np.float32
    np.testing.assert_array_equal(vector, torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy())

    fresh = model()
    fresh.load_state_dict(layout.unpack(vector, buffers, like=state))
    for name, tensor in fresh.state_dict().items():
        assert tensor.dtype == state[name].dtype
        assert torch.equal(tensor, state[name]), name
    assert int(fresh.state_dict()["1.num_batches_tracked"]) == 1


def test_averaged_counters_are_rounded() -> None:
    layout = Layout.of(model().state_dict())
    vector, buffers = layout.pack(model().state_dict())
    buffers[-1] = 2.6
    assert layout.unpack(vector, buffers)["1.num_batches_tracked"] == 3


def test_a_counter_without_axes_stays_an_array() -> None:
    layout = Layout.of({"bn.num_batches_tracked": np.array(3)})
    counter = layout.unpack(*layout.pack({"bn.num_batches_tracked": np.array(3)}))["bn.num_batches_tracked"]
    assert isinstance(counter, np.ndarray)  # Flower takes nothing else
    assert (counter.shape, counter) == ((), 3)


def test_numpy_mapping_there_and_back() -> None:
    layout = Layout.of(ARRAYS)
    assert layout.sizes == (6, 1, 2, 0)
    assert (layout.elements, layout.buffer_elements) == (9, 4)
    vector, buffers = layout.pack(ARRAYS)
    np.testing.assert_array_equal(vector, [0, 1, 2, 3, 4, 5, 2.5, 1.5, -2])
    np.testing.assert_array_equal(buffers, [3, 4, 1, 0])
    back = layout.unpack(vector, buffers)
    assert list(back) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert back[name].dtype == np.asarray(array).dtype
        assert back[name].shape == np.asarray(array).shape
        np.testing.assert_array_equal(back[name], array)


def test_unpacked_arrays_are_views() -> None:
    layout = Layout.of({"w": ARRAYS["w"]})
    vector, _ = layout.pack({"w": ARRAYS["w"]})
    layout.unpack(vector)["w"][0, 0] = 99.0
    assert vector[0] == 99.0


def test_pack_copies() -> None:
    state = {"w": ARRAYS["w"].copy()}
    vector, _ = Layout.of(state).pack(state)
    vector[:] = -1
    np.testing.assert_array_equal(state["w"], ARRAYS["w"])


def test_buffers_may_be_named() -> None:
    layout = Layout.of(ARRAYS, buffers=["w"])
    assert [t.name for t in layout.tensors if t.buffer] == ["w", "steps", "flags"]  # integers are never trained
    assert Layout.of({"bn.running_mean": np.ones(2)}, buffers=[]).sizes == (2,)


def test_order_is_that_of_the_mapping_and_pack_does_not_care() -> None:
    layout = Layout.of(ARRAYS)
    reversed_ = dict(reversed(list(ARRAYS.items())))
    np.testing.assert_array_equal(layout.pack(reversed_)[0], layout.pack(ARRAYS)[0])
    assert Layout.of(reversed_) != layout
    assert hash(Layout.of(ARRAYS)) == hash(layout)


def test_of_sizes() -> None:
    layout = Layout.of_sizes([3, 0, 2])
    assert layout.sizes == (3, 0, 2)
    assert layout.tensors[2] == Tensor("t2", (2,), "float32", False)
    assert Layout.of_sizes([]).elements == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda lay: lay.pack({k: v for k, v in ARRAYS.items() if k != "wide"}), "missing tensors: wide"),
        (lambda lay: lay.pack({**ARRAYS, "extra": np.ones(1)}), "not in the layout: extra"),
        (lambda lay: lay.pack({**ARRAYS, "w": np.ones((3, 2))}), r"w: shape \(3, 2\), the layout has \(2, 3\)"),
        (lambda lay: lay.unpack(np.zeros(8, np.float32), np.zeros(4, np.float32)), r"vector: shape \(8,\).*\(9,\)"),
        (lambda lay: lay.unpack(np.zeros((1, 9), np.float32), np.zeros(4, np.float32)), "vector: shape"),
        (lambda lay: lay.unpack(np.zeros(9, np.float32)), r"buffers: shape \(0,\).*\(4,\)"),
        (lambda lay: lay.unpack(np.zeros(9, np.float32), np.zeros(4, np.float32), like={}), "`like` has no tensor w"),
        (lambda lay: Layout.of(ARRAYS, buffers=["w", "typo"]), "buffers not in the mapping: typo"),
    ],
)
def test_mismatches_say_what_does_not_match(call: object, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        call(Layout.of(ARRAYS))
