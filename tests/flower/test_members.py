"""Who a node is: a name that is held is refused, far partitions cost nothing, and no name reaches a log as it came."""

import pytest

from adagq.flower.members import LONGEST_NAME, Members


def test_a_second_node_that_claims_a_name_is_refused_while_the_first_is_connected() -> None:
    members = Members()
    first = members.admit(11, {"name": "partition-1", "partition-id": 1}, connected=[11])
    assert first is not None
    for _ in range(3):  # in every round
        assert members.admit(66, {"name": "partition-1", "partition-id": 1}, connected=[11, 66]) is None
        assert members.present([11, 66]) == {first.client: 11}
    again = members.admit(12, {"name": "partition-1", "partition-id": 1}, connected=[12])  # the first has restarted
    assert again == first


@pytest.mark.parametrize("wanted", [999_999, 2**63, -1, 1.5, "7", None, [3], True, float("nan")])
def test_a_far_or_odd_partition_is_the_next_free_number(wanted: object) -> None:
    members = Members()
    for node in range(3):
        assert members.admit(node, {"name": f"n{node}", "partition-id": node}) is not None
    member = members.admit(9, {"name": "far", "partition-id": wanted})
    assert member is not None
    assert member.client < 10


@pytest.mark.parametrize("name", ["\x1b[2Jboss", "a\nb\rc", "x" * 10_000, "", "\x00", "‮evil", 7, ["a"]])
def test_names_are_short_lines_of_printable_text(name: object) -> None:
    member = Members().admit(5, {"name": name})
    assert member is not None
    assert member.name.isprintable()
    assert 0 < len(member.name) <= LONGEST_NAME
