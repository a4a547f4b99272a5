"""Dependencies between tasks: which kinds there are, which of them hold work up, and how many a task has."""

from __future__ import annotations

from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

BLOCKS = "blocks"
CONDITIONAL = "conditional-blocks"
WAITS_FOR = "waits-for"
PARENT_CHILD = "parent-child"

#: The task waits until what it needs is resolved.
HARD = (BLOCKS, CONDITIONAL)
#: All that can hold a task up by itself.
BLOCKING = (*HARD, WAITS_FOR)
#: A circle of these would leave nothing in it ready: a blocked parent blocks its children.
SCHEDULING = (*HARD, PARENT_CHILD)

WELL_KNOWN = (
    BLOCKS,
    CONDITIONAL,
    WAITS_FOR,
    PARENT_CHILD,
    "related",
    "discovered-from",
    "replies-to",
    "relates-to",
    "duplicates",
    "supersedes",
    "authored-by",
    "assigned-to",
    "approved-by",
    "attests",
    "tracks",
    "until",
    "caused-by",
    "validates",
    "delegated-from",
)

EXTERNAL = "external:"

#: A waits-for dependency ends when every child of the target is resolved, or when one of them is.
ALL_CHILDREN, ANY_CHILDREN = "all-children", "any-children"


class Edge(Record):
    """`task` waits for `needs`, or belongs to it: a child's edge points at its parent."""

    task: str
    needs: str
    type: str = BLOCKS
    created_at: datetime
    created_by: str = ""
    metadata: str = "{}"
    thread_id: str = ""

    @property
    def gate(self) -> str:
        """Which children a waits-for dependency waits for."""
        return ANY_CHILDREN if ANY_CHILDREN in self.metadata else ALL_CHILDREN


class Tally(Record):
    """How many edges leave a task, how many reach it, how many of those hold work up, and how many comments it has."""

    dependencies: int = 0
    dependents: int = 0
    blockers: int = 0
    blocked: int = 0
    comments: int = 0
