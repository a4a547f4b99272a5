"""A repository with growing branches, for the tests of the conflict radar."""

from collections.abc import Callable
from pathlib import Path

from fleet.git.merge.collisions import BranchState, Collider
from repositories import run_git
from workplaces import Place


class Yard(Place):
    """A repository whose main checkout commits to its branches."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.collider = Collider(self.view)
        self.begun: dict[str, str] = {}

    def grow(self, name: str, change: Callable[[Path], object], *, base: str = "main") -> BranchState:
        """Commit a change to a branch, which is created if it is missing. Return the branch."""
        if name not in self.begun:
            self.begun[name] = run_git(self.top, "rev-parse", base)
            run_git(self.top, "branch", name, base)
        run_git(self.top, "checkout", "--quiet", name)
        change(self.top)
        run_git(self.top, "add", "--all")
        run_git(self.top, "commit", "--quiet", "--allow-empty", f"--message=more of {name}")
        tip = run_git(self.top, "rev-parse", "HEAD")
        run_git(self.top, "checkout", "--quiet", "main")
        return BranchState(name, tip, self.begun[name])

    def clashes(self, *branches: BranchState) -> list[tuple[str, str, tuple[str, ...]]]:
        found = self.collider.look(branches, seconds=120)
        assert found.is_complete
        return [(each.branch.key, each.other.key, each.files) for each in found.clashes]


def write(name: str, text: str) -> Callable[[Path], object]:
    def change(top: Path) -> None:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)

    return change
