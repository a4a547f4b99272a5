"""Shows what fleet does today, with the installed program in a home of its own: `make demo`.

Prints each command as one would type it, then what it says. A command that fails ends the demo with exit code 1.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

FLEET = Path(sys.executable).with_name("fleet")

#: name here, title, further words; `needs:NAME` becomes a dependency on the task of that name.
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
    """Types commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir()
        program = str(FLEET.parent)
        # Nothing of the user's own fleet may leak in.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("FLEET_", "BEADS_", "BD_"))}
        path = program + os.pathsep + kept.get("PATH", "")
        self.env = {**kept, "FLEET_HOME": str(self.home), "BEADS_ACTOR": "ada", "PATH": path}

    def type(self, line: str) -> str:
        """Run one command line, shown as a shell would; what it printed."""
        print(f"$ {line}", flush=True)
        done = subprocess.run(
            shlex.split(line),
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(done.stdout.rstrip() + "\n", flush=True)
        if done.returncode != 0:
            sys.exit(f"error: exit code {done.returncode} from: {line}\nhint:  everything is left in {self.folder}")
        return done.stdout

    def create(self, title: str, words: str, ids: dict[str, str]) -> str:
        """Put one task in; its id."""
        plain = [word for word in words.split() if not word.startswith("needs:")]
        needs = [ids[word.removeprefix("needs:")] for word in words.split() if word.startswith("needs:")]
        deps = [f"--deps {','.join(needs)}"] if needs else []
        said = self.type(" ".join(["fleet bd create", shlex.quote(title), *plain, *deps]))
        return said.removeprefix("Created ").partition(":")[0]


def main() -> None:
    """Fill a queue and work through some of it."""
    demo = Demo(Path(tempfile.mkdtemp(prefix="fleet-demo-")))
    say(f"FLEET_HOME={demo.home}")
    demo.type("fleet init --permissions user")

    say("a dozen tasks: what waits for what, how urgent, with which labels")
    ids: dict[str, str] = {}
    for name, title, words in TASKS:
        ids[name] = demo.create(title, words, ids)

    say("everything that is open, what can start now, and what waits")
    demo.type("fleet bd list")
    ready_before = ready(demo)
    demo.type("fleet bd blocked")

    say("an agent takes the most urgent one, says something about it, and closes it")
    demo.type(f"fleet bd update {ids['schema']} --claim")
    demo.type(f"fleet bd comment {ids['schema']} 'two tables are enough'")
    demo.type(f"fleet bd show {ids['schema']}")
    demo.type(f"fleet bd close {ids['schema']} --reason 'tables laid out, tests pass'")

    say("what waited for it is ready now")
    new = ready(demo) - ready_before
    expected = {ids["migrate"], ids["api"]}
    if new != expected:
        sys.exit(f"error: {sorted(new)} became ready, expected {sorted(expected)}")

    say("the state of the queue, and one task with the coder and model it will get")
    demo.type("fleet bd stats")
    demo.type(f"fleet show {ids['api']}")

    say("agents at work: a dozen tasks, several at once, one that fails and is run again, one that asks")
    demo.type("fleet demo")

    say("everything lies here; nothing outside of it was touched")
    print(f"  {demo.home / 'fleet.db'}       the queue\n  {demo.home / 'runtime.toml'}   the settings, each explained")
    print(f"\ngo on with it: export FLEET_HOME={demo.home}\nthrow it away: rm -r {demo.folder}")


def ready(demo: Demo) -> set[str]:
    """Show what can start now; the ids."""
    demo.type("fleet bd ready")
    argv = [str(FLEET), "bd", "ready", "--json"]
    told = subprocess.run(argv, cwd=demo.work, env=demo.env, check=True, stdout=subprocess.PIPE).stdout
    return {task["id"] for task in json.loads(told)}


def say(text: str) -> None:
    """A line of explanation between commands."""
    print(f"# {text}\n", flush=True)


if __name__ == "__main__":
    main()
