"""The actions that any store allows a run: change its own tasks, read all, and comment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import HOUR, a_comment, a_task, an_edge
from fleet.actions.tasks import rights
from fleet.actions.tasks.bounds import DEEPEST
from fleet.actions.tasks.rights import FREE, RestrictedPort, RestrictedStore, as_seen_by
from fleet.assembly import Fleet
from fleet.core.errors import BadInput, IllegalMove, TaskNotFound
from fleet.core.filter import Filter, Lane
from fleet.core.jsontext import decode, encode
from fleet.core.rules import rules_in
from fleet.core.run import Run
from fleet.core.task import Caller, Claim, Status, Verdict
from fleet.home import Home
from fleet.store import base
from fleet.store.base import SqlConfig, Store
from fleet.store.named_sql import SqlPort
from fleet.store.sql.claims import SqlClaims
from fleet.store.sql.messages import SqlTokens
from fleet.store.sql.tasks import SqlComments, SqlEdges, SqlTasks
from repositories import make_repository, run_git

pytestmark = pytest.mark.bd_in_soak


PORTS: dict[type, type[RestrictedPort]] = {
    SqlTasks: rights.RestrictedTasks,
    SqlEdges: rights.RestrictedEdges,
    SqlComments: rights.RestrictedComments,
    SqlClaims: rights.RestrictedClaims,
    SqlTokens: rights.RestrictedTokens,
    SqlConfig: rights.RestrictedConfig,
}
#: Methods that only other ports of the store call. An agent cannot reach them.
INTERNAL = {"status_of", "held", "refresh_blocked"}


def methods(port: type) -> set[str]:
    """Return the names of all methods of a port, or of all methods and ports of a store."""
    names = {name for name in (*vars(port), *port.__annotations__) if not name.startswith("_")}
    return names - {*SqlPort.__annotations__}


@pytest.fixture
def claim(store: Store) -> Claim:
    """Return the claim on the run's own task. Add a task that the run created and one of another person."""
    store.tasks.add(a_task(id="own", priority=0, verify="make test", limits="{}", finding="unverified"))
    (claim,) = store.claims.acquire("host", [Lane(room=1)], room=1, ttl=HOUR)
    store.tasks.add(a_task(id="made", made_by="own", assignee="own/1"))
    store.tasks.add(a_task(id="other", assignee="ada"))
    return claim


@pytest.fixture
def fleet(store: Store, tmp_path: Path) -> Fleet:
    """Return a home with this store."""
    return Fleet(Home(str(tmp_path / "home")), store)


@pytest.fixture
def seen(fleet: Fleet, claim: Claim) -> Store:
    """Return the store as the run sees it."""
    return as_seen_by(fleet, Caller(task_id="own", run_id="own/1", epoch=claim.epoch))


@pytest.mark.parametrize(("port", "restricted"), PORTS.items(), ids=lambda each: each.__name__)
def test_each_method_of_a_port_is_classified(port: type, restricted: type[RestrictedPort]) -> None:
    judged = {name for name in vars(restricted) if not name.startswith("_")} - {"free", "refused"}
    free, refused = restricted.free, set(restricted.refused)
    assert free | refused | judged == methods(port) - INTERNAL
    assert not free & refused and not judged & (free | refused)


def test_each_method_of_a_store_is_classified_and_other_ports_are_hidden() -> None:
    ports = {*base.PORTS}
    judged = {name for name in vars(RestrictedStore) if not name.startswith("_")}
    assert FREE | ports == methods(Store) and not FREE & ports
    assert judged == {"tasks", "edges", "comments", "claims", "tokens", "config"} < ports


def test_person_gets_the_unrestricted_store(fleet: Fleet) -> None:
    assert as_seen_by(fleet, None) is fleet.store


CHANGES: dict[str, Callable[[Store, str], Any]] = {
    "save": lambda store, key: store.tasks.save(store.tasks.get(key).replace(title="changed")),
    "link": lambda store, key: store.edges.add(an_edge(key, "target")),
    "unlink": lambda store, key: store.edges.remove(key, "target"),
    "remove": lambda store, key: store.tasks.remove(key),
    "take": lambda store, key: store.claims.take(key, "own/1"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_run_cannot_change_tasks_of_others(store: Store, seen: Store, name: str) -> None:
    store.tasks.add(a_task(id="target", assignee="ada"))
    before, edges = store.tasks.get("other"), store.edges.find()
    with pytest.raises(
        IllegalMove, match=r"an agent may not .* other: own neither works on it nor created it"
    ) as refused:
        CHANGES[name](seen, "other")
    assert "bd comment other" in refused.value.hint
    assert (store.tasks.get("other"), store.edges.find()) == (before, edges)


@pytest.mark.parametrize("name", CHANGES)
def test_run_can_change_tasks_that_it_created(store: Store, seen: Store, name: str) -> None:
    store.tasks.add(a_task(id="target", assignee="ada"))
    CHANGES[name](seen, "made")


def test_missing_task_raises_task_not_found(seen: Store) -> None:
    for change in (CHANGES["unlink"], CHANGES["remove"], CHANGES["take"]):
        with pytest.raises(TaskNotFound):
            change(seen, "nope")


def test_run_can_read_all_tasks(store: Store, seen: Store) -> None:
    assert seen.tasks.get("other") == store.tasks.get("other")
    assert seen.tasks.find(Filter(), sort="id") == store.tasks.find(Filter(), sort="id")
    with seen.snapshot():
        assert seen.tasks.count(Filter()) == {"": 3}


@pytest.mark.parametrize(
    "call",
    [
        lambda store, claim: store.config.set("issue_prefix", "x"),
        lambda store, claim: store.claims.request_cancel("other", "no"),
        lambda store, claim: store.claims.acquire("me", [Lane(room=1)], room=1, ttl=HOUR),
        lambda store, claim: store.claims.renew([claim], ttl=HOUR),
        lambda store, claim: store.claims.settle(claim, Verdict(status="closed")),
        lambda store, claim: store.claims.release(claim),
        lambda store, claim: store.claims.adopt("own", "host", epoch=claim.epoch, ttl=HOUR),
        lambda store, claim: store.claims.reap(),
        lambda store, claim: store.tokens.issue(claim, Caller(task_id="own", run_id="own/9", epoch=claim.epoch)),
    ],
)
def test_run_cannot_call_methods_for_people_and_supervisors(store: Store, seen: Store, claim: Claim, call: Any) -> None:
    before = (store.tasks.find(Filter(), sort="id"), store.config.all())
    with pytest.raises(IllegalMove, match="an agent may not"):
        call(seen, claim)
    assert (store.tasks.find(Filter(), sort="id"), store.config.all()) == before


def test_task_created_by_a_run_always_names_its_creator(store: Store, seen: Store) -> None:
    seen.tasks.add(a_task(id="new", made_by="other"))
    assert store.tasks.get("new").made_by == "own"


def test_run_cannot_change_reserved_fields(store: Store, seen: Store) -> None:
    lies = {"made_by": "", "origin": "x", "finding": "verified", "reason": "x"}
    for key in ("own", "made"):
        kept = store.tasks.get(key)
        seen.tasks.save(kept.replace(title="changed", **lies))
        assert store.tasks.get(key) == kept.replace(title="changed")
    judging = {"verify": "true", "limits": '{"max_cost_usd":9}'}
    own, made = store.tasks.get("own"), store.tasks.get("made")
    seen.tasks.save(own.replace(**judging, account="rich", cwd="/", repo="/", branch="main", base="x", coder="a:B"))
    seen.tasks.save(made.replace(**judging))
    assert (store.tasks.get("own"), store.tasks.get("made")) == (own, made.replace(**judging))
    with pytest.raises(IllegalMove, match="may not choose account"):
        seen.tasks.save(made.replace(account="rich"))


@pytest.mark.parametrize("status", [Status.CLOSED, Status.PINNED])
def test_run_cannot_end_its_own_task(store: Store, seen: Store, status: str) -> None:
    with pytest.raises(IllegalMove, match="only after fleet has checked the work") as refused:
        seen.tasks.save(store.tasks.get("own").moved(status, store.now()))
    assert "bd close own" in refused.value.hint
    seen.tasks.save(store.tasks.get("own").moved(Status.BLOCKED, store.now()))
    assert store.tasks.get("own").status == Status.BLOCKED
    seen.tasks.save(store.tasks.get("made").moved(status, store.now()))
    assert store.tasks.get("made").status == status


def test_run_cannot_reopen_its_own_task_after_a_person_closed_it(store: Store, seen: Store) -> None:
    store.tasks.save(store.tasks.get("own").closed("not needed", store.now()))
    with pytest.raises(IllegalMove, match="a person closed it"):
        seen.tasks.save(store.tasks.get("own").reopened(store.now()))
    assert store.tasks.get("own").status == Status.CLOSED


def test_run_can_neither_release_nor_delete_supervised_tasks(store: Store, seen: Store, claim: Claim) -> None:
    store.tasks.save(store.tasks.get("made").replace(assignee=""))
    store.claims.acquire("host", [Lane(room=1)], room=1, ttl=HOUR)
    for key in ("own", "made"):
        assert store.tasks.get(key).is_supervised
        with pytest.raises(IllegalMove, match=f"return {key} to the queue"):
            seen.tasks.save(store.tasks.get(key).freed(store.now()))
        with pytest.raises(IllegalMove, match="an agent is working on it"):
            seen.tasks.remove(key)
        assert store.tasks.get(key).is_supervised


def test_reopening_by_a_run_fences_the_earlier_holder(store: Store, seen: Store) -> None:
    store.tasks.save(store.tasks.get("made").closed("done", store.now()))
    before = store.tasks.get("made").epoch
    seen.tasks.save(store.tasks.get("made").reopened(store.now()))
    assert store.tasks.get("made").epoch == before + 1


def test_run_comments_on_any_task_under_its_own_name(store: Store, seen: Store) -> None:
    seen.comments.add(a_comment("other", author="the boss"))
    assert [each.author for each in store.comments.find(["other"])] == ["own/1"]


def a_run_of(fleet: Fleet, task_id: str, **said: Any) -> Store:
    return as_seen_by(fleet, Caller(task_id=task_id, run_id=f"{task_id}/1", epoch=1, **said))


def chain(fleet: Fleet, length: int, **first: Any) -> None:
    """Add tasks level-0 to level-N, each created by a run of the one before. The fields apply to the first task."""
    fleet.store.tasks.add(a_task(id="level-0", **first))
    for level in range(length):
        a_run_of(fleet, f"level-{level}").tasks.add(a_task(id=f"level-{level + 1}"))


@pytest.mark.parametrize("deepest", [None, 0, 1, 2, 3, 4])
def test_depth_of_created_tasks_is_limited_by_the_first_creator(fleet: Fleet, deepest: int | None) -> None:
    most = DEEPEST if deepest is None else deepest
    chain(fleet, most, rules="" if deepest is None else encode({"depth": deepest}))
    with pytest.raises(IllegalMove, match=f"its depth is {most}, and the maximum is {most}"):
        a_run_of(fleet, f"level-{most}").tasks.add(a_task())
    with pytest.raises(IllegalMove, match=f"its depth is {most}"):  # a false creator in the task changes nothing
        a_run_of(fleet, f"level-{most}").tasks.add(a_task(rules=encode({"depth": 9}), made_by=""))


def test_created_task_gets_no_higher_limits_than_its_creator(fleet: Fleet) -> None:
    store = fleet.store
    store.tasks.add(a_task(id="a", rules=encode({"depth": 1, "at_once": 3})))
    seen = a_run_of(fleet, "a")
    seen.tasks.add(a_task(id="b", rules=encode({"depth": 9, "at_once": 50, "retries": 1})))
    assert rules_in(store.tasks.get("b").rules) == rules_in(encode({"depth": 1, "at_once": 3, "retries": 1}))
    seen.tasks.save(store.tasks.get("b").replace(rules=""))
    assert rules_in(store.tasks.get("b").rules) == rules_in(encode({"depth": 1, "at_once": 3})), "nor later"
    with pytest.raises(BadInput, match="invalid fleet"):
        seen.tasks.add(a_task(rules="[]"))


def test_deleted_ancestor_does_not_reset_the_depth(fleet: Fleet) -> None:
    chain(fleet, DEEPEST)
    a_run_of(fleet, "level-0").tasks.remove("level-1")
    with pytest.raises(IllegalMove, match="its depth is"):
        a_run_of(fleet, "level-2").tasks.add(a_task())


def test_circular_chain_of_creators_is_refused(fleet: Fleet) -> None:
    fleet.store.tasks.add(a_task(id="a", made_by="a"))
    with pytest.raises(IllegalMove, match="its depth is"):
        a_run_of(fleet, "a").tasks.add(a_task())


def test_depth_given_to_a_run_counts(fleet: Fleet) -> None:
    fleet.store.tasks.add(a_task(id="a"))
    with pytest.raises(IllegalMove, match="its depth is"):
        a_run_of(fleet, "a", depth=DEEPEST).tasks.add(a_task())
    a_run_of(fleet, "a", depth=DEEPEST - 1).tasks.add(a_task())


def test_run_creates_nothing_when_its_task_is_gone(fleet: Fleet) -> None:
    with pytest.raises(IllegalMove, match="cannot be read"):
        a_run_of(fleet, "nope").tasks.add(a_task())


def test_tasks_are_created_only_in_allowed_repositories(fleet: Fleet, tmp_path: Path) -> None:
    repo, other = make_repository(tmp_path / "repo"), make_repository(tmp_path / "other")
    tree = tmp_path / "tree"
    run_git(repo, "worktree", "add", "-q", str(tree))
    fleet.store.tasks.add(a_task(id="a", rules=encode({"repos": [str(repo)]})))
    seen = a_run_of(fleet, "a")
    for place in (repo, repo / "below", tree):  # a worktree belongs to its repository
        seen.tasks.add(a_task(id=f"in-{place.name}", cwd=str(place)))
        assert rules_in(fleet.store.tasks.get(f"in-{place.name}").rules).repos == (str(repo),), "theirs have no more"
    mixed = ({"cwd": str(repo), "repo": str(other)}, {"cwd": str(other), "repo": str(repo)})
    for places in ({"cwd": str(other)}, {"cwd": ""}, {"cwd": f"{repo}-2"}, *mixed):
        with pytest.raises(IllegalMove, match="is not an allowed repository"):
            seen.tasks.add(a_task(**places))
    with pytest.raises(IllegalMove, match="is not an allowed repository"):
        seen.tasks.save(fleet.store.tasks.get("in-repo").replace(cwd=str(other)))
    with pytest.raises(IllegalMove, match="is not an allowed repository"):
        a_run_of(fleet, "in-repo", repos=(str(other),)).tasks.add(a_task(cwd=str(repo)))


def ran(fleet: Fleet, task_id: str, **took: Any) -> None:
    """Add a run that has ended with this usage."""
    lane = Lane(room=1, where=Filter(ids=(task_id,)))
    (claim,) = fleet.store.claims.acquire("host", [lane], room=1, ttl=HOUR)
    given = {"coder": "demo", "started_at": fleet.store.now(), **took}
    run = fleet.store.runs.begin(claim, Run(id="", task_id=task_id, number=0, epoch=claim.epoch, owner="host", **given))
    fleet.store.runs.end(run.replace(ended_at=fleet.store.now(), ending="failed"))
    fleet.store.claims.release(claim)


def test_budget_of_a_run_is_shared_by_the_tasks_it_creates(fleet: Fleet) -> None:
    store = fleet.store
    store.tasks.add(a_task(id="a", limits=encode({"max_cost_usd": 1.0, "max_tokens": 1000, "wall_seconds": 60})))
    ran(fleet, "a", cost_usd=0.2, input_tokens=100)
    for key in ("b", "c"):
        a_run_of(fleet, "a").tasks.add(a_task(id=key, limits=encode({"max_cost_usd": 5, "silence_seconds": 9})))
        assert decode(store.tasks.get(key).limits) == {
            **{"max_cost_usd": 0.8, "silence_seconds": 9},
            **{"max_tokens": 900, "wall_seconds": 60},
        }
    ran(fleet, "b", cost_usd=0.3, input_tokens=50)
    ran(fleet, "b", cost_usd=0.3, output_tokens=50)
    a_run_of(fleet, "b").tasks.add(a_task(id="d", limits=encode({"max_cost_usd": 0.1})))
    assert decode(store.tasks.get("d").limits) == {
        **{"max_cost_usd": 0.1, "max_tokens": 800},
        **{"silence_seconds": 9, "wall_seconds": 60},
    }, "less is for its maker to say"
    ran(fleet, "d", cost_usd=0.2, cache_read_tokens=10)
    for maker in ("a", "b", "c"):
        with pytest.raises(IllegalMove, match=r"\$0\.00 of its budget is left"):
            a_run_of(fleet, maker).tasks.add(a_task())
    with pytest.raises(IllegalMove, match="is left"):
        a_run_of(fleet, "a").tasks.save(store.tasks.get("c").replace(limits=""))
    with pytest.raises(IllegalMove, match="its cost counts"):
        a_run_of(fleet, "a").tasks.remove("b")
    a_run_of(fleet, "a").tasks.remove("c")  # it used nothing


def test_created_task_has_no_budget_when_its_creator_has_none(fleet: Fleet) -> None:
    fleet.store.tasks.add(a_task(id="a", limits=encode({"wall_seconds": 60})))
    ran(fleet, "a", cost_usd=7.0)
    a_run_of(fleet, "a").tasks.add(a_task(id="b"))
    assert decode(fleet.store.tasks.get("b").limits) == {"wall_seconds": 60}
    a_run_of(fleet, "a").tasks.add(a_task(id="c", limits=encode({"max_cost_usd": 3})))
    a_run_of(fleet, "c").tasks.add(a_task(id="d"))
    assert decode(fleet.store.tasks.get("d").limits) == {"max_cost_usd": 3, "wall_seconds": 60}
