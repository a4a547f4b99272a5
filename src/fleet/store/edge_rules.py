"""What every queue refuses about a new edge."""

from __future__ import annotations

from fleet.core.dependency import HARD, SCHEDULING
from fleet.core.errors import CycleRefused, DependencyRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.core.dependency import Edge


def check_edge(
    edge: Edge,
    existing: list[Edge],
    *,
    reaches: Callable[[str, str], bool] | None,
    ancestors: Callable[[str], list[str]],
) -> None:
    """Refuse a loop, a second edge of another type between the same two, and whatever would never become ready."""
    task, needs = edge.task, edge.needs
    if task == needs:
        raise DependencyRefused(f"cannot add self-dependency: {task} cannot depend on itself")
    if edge.type in HARD and needs in ancestors(task):
        raise DependencyRefused(
            f"cannot add dependency: {task} is already a child of {needs}. Children inherit dependency on parent "
            "completion via hierarchy. Adding an explicit dependency would create a deadlock"
        )
    for other in existing:
        if other.type != edge.type:
            raise DependencyRefused(
                f'dependency {task} -> {needs} already exists with type "{other.type}" (requested "{edge.type}"); '
                "remove it first with 'bd dep remove' then re-add"
            )
    if edge.type in SCHEDULING and reaches is not None and reaches(edge.needs, edge.task):
        raise CycleRefused("adding dependency would create a cycle", hint="`bd dep tree` shows what waits for what.")
