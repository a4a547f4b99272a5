"""The contract of all stores for lanes with several coders, accounts and modes."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest

from builders import HOUR, NOON, FakeClock, a_task
from contract.conftest import STORES
from fleet.core.filter import Filter, Lane, by_lane
from fleet.store.base import Store
from fleet.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.bd_in_soak

CODERS, ACCOUNTS, MODES = ("", "claude", "codex"), ("", "work", "home"), ("", "headless", "interactive")
SPELLINGS = Filter(coders=("", "claude"), accounts=("", "work"), modes=("", "headless"))


def claimed(store: Store, *lanes: Lane, room: int = 1000) -> str:
    """Return the ids that these lanes claim, in order."""
    return " ".join(claim.task.id for claim in store.claims.acquire("host", lanes, room=room, ttl=HOUR))


def test_lane_claims_tasks_of_each_coder_spelling_by_priority(store: Store) -> None:
    said: list[dict[str, Any]] = [
        {"id": "t-1", "coder": "claude", "priority": 3},
        {"id": "t-2", "priority": 1},
        {"id": "t-3", "coder": "claude", "account": "work", "mode": "headless", "priority": 0},
        {"id": "t-4", "mode": "headless", "account": "work", "priority": 2},
        {"id": "t-5", "coder": "codex", "priority": 0},
        {"id": "t-6", "account": "home", "priority": 0},
        {"id": "t-7", "mode": "interactive", "priority": 0},
    ]
    for each in said:
        store.tasks.add(a_task(**each))
    assert claimed(store, Lane(room=3, where=SPELLINGS)) == "t-3 t-2 t-4"
    assert claimed(store, Lane(room=3, where=SPELLINGS)) == "t-1"
    assert claimed(store, Lane(room=3, where=SPELLINGS)) == ""


def test_room_of_a_lane_is_shared_by_all_spellings(store: Store) -> None:
    for number in range(4):
        store.tasks.add(a_task(id=f"t-{number}", coder=("", "claude")[number % 2], account=("", "work")[number // 2]))
    assert claimed(store, Lane(room=1, where=SPELLINGS)) == "t-0"
    assert claimed(store, Lane(room=2, where=SPELLINGS), room=1) == "t-1"


def test_lane_without_coders_claims_nothing(store: Store) -> None:
    store.tasks.add(a_task())
    for where in (
        Filter(coders=()),
        Filter(coders=(), accounts=("",)),
        Filter(coders=("",), accounts=()),
        Filter(modes=()),
    ):
        assert claimed(store, Lane(room=1, where=where)) == ""


def test_task_must_match_every_condition_of_a_lane(store: Store) -> None:
    store.tasks.add(a_task(id="t-1", coder="claude"))
    store.tasks.add(a_task(id="t-2", coder="codex"))
    both = Filter(coder="codex", coders=("claude", "codex"), accounts=("", ""))
    assert claimed(store, Lane(room=2, where=both)) == "t-2"
    assert claimed(store, Lane(room=2, where=both.replace(coder="gemini"))) == ""


def test_all_stores_claim_the_same_tasks_for_random_lanes(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    sys.stdout.write(f"seed {seed}\n")
    chance = random.Random(seed)
    clock = FakeClock()
    queues = [STORES[kind](tmp_path, clock) for kind in ("sqlite", "postgres")]
    for number in range(150):
        task = a_task(
            id=f"t-{number:03}",
            coder=chance.choice(CODERS),
            account=chance.choice(ACCOUNTS),
            mode=chance.choice(MODES),
            priority=chance.randrange(5),
            created_at=NOON - chance.randrange(5) * HOUR,
        )
        for store in queues:
            store.tasks.add(task)
    for _ in range(12):
        lanes = [Lane(room=chance.randrange(5), where=_any_lane(chance)) for _ in range(chance.randrange(1, 4))]
        room = chance.randrange(1, 12)
        first, *others = (claimed(store, *lanes, room=room) for store in queues)
        assert others == [first], lanes
    for store in queues:
        store.close()


def _any_lane(chance: random.Random) -> Filter:
    def some(names: tuple[str, ...]) -> tuple[str, ...] | None:
        return None if chance.random() < 0.2 else tuple(chance.sample(names, chance.randrange(1, 3)))

    return Filter(coders=some(CODERS), accounts=some(ACCOUNTS), modes=some(MODES))


def test_lane_with_several_values_is_split_into_indexed_lookups() -> None:
    lanes = by_lane(SPELLINGS.replace(coders=("", "claude", "")))
    assert [(each.coder, each.account, each.mode) for each in lanes] == [
        (coder, account, mode) for coder in ("", "claude") for account in ("", "work") for mode in ("", "headless")
    ]
    assert {(each.coders, each.accounts, each.modes) for each in lanes} == {(None, None, None)}
    for where in (Filter(), Filter(coders=("a", "b")), Filter(coder="a", account="a"), Filter(account="a", mode="")):
        assert by_lane(where) == [where]


@pytest.mark.parametrize(
    "where", [SPELLINGS, Filter(coder="claude", accounts=("", "work"), mode=""), Filter(coder="", account="", mode="x")]
)
def test_sqlite_claim_uses_the_lane_index_without_sorting(tmp_path: Path, where: Filter) -> None:
    store = SqliteStore(str(tmp_path / "fleet.db"), make=True)
    plans = []
    ask = store.connection.rows

    def explained(sql: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        if "tasks_claimable" in sql:
            plans.append(" ".join(row[3] for row in ask(f"explain query plan {sql}", values)))
        return ask(sql, values)

    store.connection.rows = explained  # type: ignore[method-assign]
    store.claims.acquire("host", [Lane(room=3, where=where)], room=3, ttl=HOUR)
    assert len(plans) == len(by_lane(where))
    assert all("INDEX tasks_claimable_by_lane (coder=? AND account=? AND mode=?)" in plan for plan in plans)
    assert not any("TEMP B-TREE" in plan for plan in plans)
    store.close()
