"""Dependencies between tasks: their types, which of them block work, and their counts."""

from __future__ import annotations

from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

BLOCKS = "blocks"
CONDITIONAL = "conditional-blocks"
WAITS_FOR = "waits-for"
PARENT_CHILD = "parent-child"

#: The task waits until the needed task is resolved.
HARD = (BLOCKS, CONDITIONAL)
#: All types that can block a task on their own.
BLOCKING = (*HARD, WAITS_FOR)
#: A cycle of these would never become ready, because a blocked parent blocks its children.
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

#: A waits-for dependency ends when all children of the target are resolved, or when any of them is.
ALL_CHILDREN, ANY_CHILDREN = "all-children", "any-children"


class Edge(Record):
    """A dependency: `task` waits for `needs` or belongs to it. A child's edge points at its parent."""

    task: str
    needs: str
    type: str = BLOCKS
    created_at: datetime
    created_by: str = ""
    metadata: str = "{}"
    thread_id: str = ""

    @property
    def gate(self) -> str:
        """Return which children a waits-for dependency waits for."""
        return ANY_CHILDREN if ANY_CHILDREN in self.metadata else ALL_CHILDREN


class Tally(Record):
    """The counts of a task's outgoing edges, incoming edges, blocking edges of both kinds, and comments."""

    dependencies: int = 0
    dependents: int = 0
    blockers: int = 0
    blocked: int = 0
    comments: int = 0
