"""Demonstrate fleet with the installed program in a separate home: `make demo`.

Each command and its output is printed. A command that fails ends the demo with exit code 1.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

FLEET = Path(sys.executable).with_name("fleet")

#: Name in this file, title, options. `needs:NAME` becomes a dependency on the task with that name.
TASKS = (
    ("schema", "Lay out the tables", "-p 0 -t feature -l database"),
    ("migrate", "Write the migrations", "-p 1 -l database needs:schema"),
    ("api", "Serve the tasks over HTTP", "-p 1 -t feature -l web needs:schema"),
    ("login", "Log in with a token", "-p 1 -t feature -l web,security needs:api"),
    ("page", "Show the tasks on a page", "-p 2 -t feature -l web needs:api"),
    ("search", "Search titles and comments", "-p 2 -l database needs:migrate"),
    ("export", "Export everything as JSONL", "-p 2 needs:migrate"),
    ("flaky", "Find out why the clock test fails on Mondays", "-p 0 -t bug -l tests"),
    ("typos", "Correct the spelling in the guide", "-p 4 -t chore -l docs"),
    ("guide", "Write the guide for newcomers", "-p 3 -l docs needs:page needs:login"),
    ("pentest", "Try to get in without a token", "-p 1 -l security needs:login"),
    ("release", "Release 1.0", "-p 1 -t milestone needs:guide needs:pentest needs:export needs:search"),
)


class Demo:
    """A folder with a home, and the commands that run there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir()
        program = str(FLEET.parent)
        # Settings of the user's own fleet must not leak in.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("FLEET_", "BEADS_", "BD_"))}
        path = program + os.pathsep + kept.get("PATH", "")
        self.env = {**kept, "FLEET_HOME": str(self.home), "BEADS_ACTOR": "ada", "PATH": path}

    def run(self, line: str) -> None:
        """Print a command and run it."""
        print(f"$ {line}", flush=True)
        done = subprocess.run(shlex.split(line), cwd=self.work, env=self.env, stdin=subprocess.DEVNULL)
        print(flush=True)
        if done.returncode != 0:
            sys.exit(f"error: exit code {done.returncode} from: {line}\nhint:  all files are kept in {self.folder}")

    def read(self, line: str) -> str:
        """Run a command without printing it, and return its output."""
        argv = shlex.split(line)
        return subprocess.run(argv, cwd=self.work, env=self.env, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Fill a queue, work on it as an agent does, and let agents work on another one."""
    demo = Demo(Path(tempfile.mkdtemp(prefix="fleet-demo-")))
    say(f"Create a home in {demo.home}, which FLEET_HOME names")
    demo.run("fleet init --permissions user")

    say(f"Create {len(TASKS)} tasks with priorities, labels and dependencies")
    ids = create_tasks(demo)

    say("List the tasks that can start now, and those that wait for others")
    demo.run("fleet bd ready")
    ready_before = ready(demo)
    demo.run("fleet bd blocked")

    say("Claim the most urgent task, comment on it and close it, as an agent does")
    demo.run(f"fleet bd update {ids['schema']} --claim")
    demo.run(f"fleet bd comment {ids['schema']} 'two tables are enough'")
    demo.run(f"fleet bd show {ids['schema']}")
    demo.run(f"fleet bd close {ids['schema']} --reason 'tables laid out, tests pass'")

    say("Two tasks that waited for it are ready now")
    demo.run("fleet bd ready")
    new = ready(demo) - ready_before
    expected = {ids["migrate"], ids["api"]}
    if new != expected:
        sys.exit(f"error: {sorted(new)} became ready, expected {sorted(expected)}")

    say("Show a task with the coder and the model that will work on it")
    demo.run(f"fleet show {ids['api']}")

    say("Run several agents at once on another queue: one task fails and is retried, one asks a question")
    demo.run("fleet demo")

    say("All files of this demo are in one folder")
    print(f"  {demo.home / 'fleet.db'}       the queue\n  {demo.home / 'runtime.toml'}   the settings, each explained")
    print(f"\nto continue:  export FLEET_HOME={demo.home}\nto remove it: rm -r {demo.folder}")


def create_tasks(demo: Demo) -> dict[str, str]:
    """Create the tasks, and return their IDs by their names in this file."""
    ids: dict[str, str] = {}
    for name, title, options in TASKS:
        words = [word for word in options.split() if not word.startswith("needs:")]
        needs = [ids[word.removeprefix("needs:")] for word in options.split() if word.startswith("needs:")]
        words += ["--deps", ",".join(needs)] if needs else []
        line = " ".join(["fleet bd create --silent", shlex.quote(title), *words])
        ids[name] = demo.read(line).strip()
        print(f"$ {line}\n{ids[name]}", flush=True)
    print()
    return ids


def ready(demo: Demo) -> set[str]:
    """Return the IDs of the tasks that can start now."""
    return {task["id"] for task in json.loads(demo.read("fleet bd ready --json"))}


def say(text: str) -> None:
    """Print an explanation between commands."""
    print(f"# {text}\n", flush=True)


if __name__ == "__main__":
    main()
