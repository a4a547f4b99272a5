"""The contract of all stores for comments."""

from builders import HOUR, NOON, a_comment, a_task
from fleet.store.base import Store


def test_comments_are_returned_oldest_first_for_each_task(store: Store) -> None:
    one, other, third = a_task(), a_task(), a_task()
    with store.atomic():
        for task in (one, other, third):
            store.tasks.add(task)
    late = a_comment(one, created_at=NOON + HOUR, text="ü\n🚀")
    early = a_comment(one, created_at=NOON)
    elsewhere = a_comment(other, author="")
    for comment in (late, early, elsewhere, a_comment(third)):
        store.comments.add(comment)
    assert store.comments.find([one.id]) == [early, late]
    assert store.comments.find([other.id, one.id, "nope"]) == [early, late, elsewhere]
    assert store.comments.find([]) == []
