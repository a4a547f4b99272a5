"""A model of a queue in plain dictionaries, which computes everything from scratch."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

RESOLVED = ("closed", "pinned")
HARD = ("blocks", "conditional-blocks")
HOLDING = (*HARD, "parent-child")


@dataclass
class ModelTask:
    """The compared fields of a task."""

    priority: int
    created: datetime
    coder: str
    type: str
    status: str = "open"
    assignee: str = ""
    owner: str = ""
    epoch: int = 0
    expires: datetime | None = None
    defer: datetime | None = None
    pinned: bool = False
    cancel: bool = False
    failures: int = 0


@dataclass
class Model:
    """Tasks by id, and edges by their two ends as (type, whether one child is enough)."""

    now: datetime
    tasks: dict[str, ModelTask] = field(default_factory=dict)
    edges: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)

    def targets(self, key: str, *types: str) -> list[str]:
        """Return the targets of a task's edges of these types."""
        return [needs for (task, needs), (kind, _) in self.edges.items() if task == key and kind in types]

    def children(self, key: str) -> list[str]:
        """Return the children of a task."""
        return [task for (task, needs), (kind, _) in self.edges.items() if needs == key and kind == "parent-child"]

    def reach(self, key: str, *types: str) -> set[str]:
        """Return all tasks that can be reached along these types of edges, without the start."""
        found: set[str] = set()
        frontier = self.targets(key, *types)
        while frontier:
            here = frontier.pop()
            if here not in found:
                found.add(here)
                frontier += self.targets(here, *types)
        return found

    def refusal(self, task: str, needs: str, kind: str) -> str:
        """Return the name of the error that refuses an edge, or ""."""
        if task == needs:
            return "DependencyRefused"
        if self.edges.get((task, needs), (kind, False))[0] != kind:
            return "DependencyRefused"
        if kind in HARD and needs in self.reach(task, "parent-child"):
            return "DependencyRefused"
        if kind in HOLDING and task in self.reach(needs, *HOLDING):
            return "CycleRefused"
        return ""

    def is_blocked(self, key: str) -> bool:
        """Return True if a task is blocked."""
        for (task, needs), (kind, any_child) in self.edges.items():
            if task != key:
                continue
            if kind in HARD and (needs.startswith("external:") or self.tasks[needs].status not in RESOLVED):
                return True
            if kind == "parent-child" and self.is_blocked(needs):
                return True
            done = [self.tasks[child].status in RESOLVED for child in self.children(needs)]
            if kind == "waits-for" and not all(done) and not (any_child and any(done)):
                return True
        return False

    def blocked(self) -> set[str]:
        """Return the ids of all blocked tasks."""
        return {key for key in self.tasks if self.is_blocked(key)}

    def ready(self) -> list[str]:
        """Return the ids of all ready tasks in bd's order."""
        found = [key for key, task in self.tasks.items() if self._can_start(key, task)]
        return sorted(found, key=lambda key: (self.tasks[key].priority, -self.tasks[key].created.timestamp(), key))

    def chosen(self, lanes: dict[str, int], room: int) -> list[str]:
        """Return the ids that a claim returns, by priority and then by age.

        Lanes are by coder; "" accepts all tasks.
        """
        left = dict(lanes)
        found: list[str] = []
        order = sorted(self.ready(), key=lambda key: (self.tasks[key].priority, self.tasks[key].created, key))
        for key in order:
            lane = "" if "" in left else self.tasks[key].coder
            if not self.tasks[key].assignee and left.get(lane, 0) > 0 and len(found) < room:
                left[lane] -= 1
                found.append(key)
        return found

    def may_start(self, task: ModelTask) -> bool:
        """Return True if a task is open, or deferred to a time that has passed."""
        over = task.status == "deferred" and task.defer is not None and task.defer <= self.now
        return task.status == "open" or over

    def move(self, key: str, status: str) -> None:
        """Change the status of a task manually."""
        task = self.tasks[key]
        if status == task.status:
            return
        if task.status == "closed":
            task.epoch += 1
        if status != "in_progress" and task.expires is None:
            task.owner = ""
        task.status = status

    def hold(self, key: str, owner: str, ttl: timedelta | None) -> None:
        """Claim a task."""
        task = self.tasks[key]
        task.status, task.owner, task.assignee, task.epoch = "in_progress", owner, owner, task.epoch + 1
        if ttl is not None:
            task.expires, task.defer, task.cancel = self.now + ttl, None, False

    def free(self, key: str, status: str = "") -> None:
        """Release a claim. Without a verdict, a status that was set manually stays."""
        task = self.tasks[key]
        if task.status != "closed" and (status or task.status == "in_progress"):
            task.status = status or "open"
        task.owner, task.assignee, task.expires, task.cancel = "", "", None, False

    def holds(self, key: str, owner: str, epoch: int) -> bool:
        """Return True if a claim is valid."""
        task = self.tasks.get(key)
        return task is not None and (task.owner, task.epoch) == (owner, epoch)

    def remove(self, key: str) -> None:
        """Remove a task and its edges."""
        del self.tasks[key]
        self.edges = {ends: edge for ends, edge in self.edges.items() if key not in ends}

    def _can_start(self, key: str, task: ModelTask) -> bool:
        holders = [task, *(self.tasks[parent] for parent in self.targets(key, "parent-child"))]
        in_time = all(each.defer is None or each.defer <= self.now for each in holders)
        free = self.may_start(task) and not task.owner and not task.pinned and task.type != "gate"
        return free and in_time and not self.is_blocked(key)
