"""Renewal of bd's leases: in time, and not all at once."""

from fleet.beads.mirror import BEAT_EVERY, BdLeases


class Watch:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_fresh_lease_is_not_renewed_before_it_is_due() -> None:
    watch = Watch()
    leases = BdLeases(watch)
    leases.renewed("a")
    assert leases.due(["a"]) == []
    watch.now += BEAT_EVERY - 1
    assert leases.due(["a"]) == []
    watch.now += 1
    assert leases.due(["a"]) == ["a"]
    leases.renewed("a")
    assert leases.due(["a"]) == []


def test_lease_of_another_supervisor_is_due_at_once() -> None:
    assert BdLeases(Watch()).due(["a"]) == ["a"]


def test_oldest_leases_are_renewed_first_in_small_groups() -> None:
    watch = Watch()
    leases = BdLeases(watch)
    keys = [f"t{number:02}" for number in range(20)]
    for key in reversed(keys):
        leases.renewed(key)
        watch.now += 1
    watch.now += BEAT_EVERY
    seen: list[str] = []
    for _ in range(5):
        part = leases.due(keys)
        assert len(part) == 4
        seen += part
        for key in part:
            leases.renewed(key)
    assert seen == keys[::-1] and leases.due(keys) == []


def test_overdue_lease_is_renewed_before_its_turn() -> None:
    watch = Watch()
    leases = BdLeases(watch)
    keys = [f"t{number:02}" for number in range(20)]
    for key in keys:
        leases.renewed(key)
    watch.now += 2 * BEAT_EVERY
    assert sorted(leases.due(keys)) == keys


def test_lease_is_forgotten_when_it_is_no_longer_held() -> None:
    watch = Watch()
    leases = BdLeases(watch)
    leases.renewed("a")
    assert leases.due([]) == []
    assert leases.due(["a"]) == ["a"]
