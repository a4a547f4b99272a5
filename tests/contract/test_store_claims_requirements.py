"""The contract of all stores for tasks with requirements on their host."""

import pytest

from builders import HOUR, a_task
from fleet.core.filter import Filter, Lane
from fleet.core.host import encode_requirements, parse_requirements
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak


def test_task_is_found_only_by_hosts_that_offer_all_requirements(store: Store) -> None:
    fits = {"", "[]", encode_requirements(["gpu"]), encode_requirements(["gpu", "host:a"])}
    misses = {encode_requirements(["gpu", "big"]), encode_requirements(["host:b"]), "gpu", '{"a": "gpu"}', "[1]", "["}
    with store.atomic():
        for requires in fits | misses:
            store.tasks.add(a_task(requires=requires))
    offered = Filter(offers=("gpu", "host:a"))
    assert {task.requires for task in store.tasks.find(offered)} == fits
    claims = store.claims.acquire("a", [Lane(room=99, where=offered)], room=99, ttl=HOUR)
    assert {claim.task.requires for claim in claims} == fits


def test_requirements_of_a_task_are_sorted_and_unique() -> None:
    assert encode_requirements(["b", "a", "b"]) == '["a", "b"]'
    assert encode_requirements([]) == ""
    assert parse_requirements('["a","b"]') == ("a", "b") and parse_requirements("") == ()
    assert (
        parse_requirements("x") is None and parse_requirements('{"a":1}') is None and parse_requirements("[1]") is None
    )
