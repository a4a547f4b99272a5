"""Every command, and every verb of `bd`, started as a new process; the other tests fork theirs."""

import json
from collections.abc import Iterator

import pytest

from fleet.cli.bd.verbs import VERBS
from fleet.cli.main import COMMANDS
from program import Program
from repositories import make_repository

#: Commands in an order that works. A line may begin with its exit code; {a} and {b} are queued tasks.
TYPED = """
init --permissions user
config set coder=demo supervisor.min_free_disk_mb=1 supervisor.min_free_memory_mb=1
trust
ready
show {a}
create work --headless --prompt x
fanout 1 more --headless --prompt x
multi --headless most:x
wait work more-A1 most
status
tasks
list
1 attach work
logs work
diff work
conflicts
receipt work
runs work
task work log
compare work more-A1
1 prompt work more --wait 0
1 interrupt more-A1
done {b}
retry work
pick more-A1 --verify true
1 pr work
1 merge most
1 verify most
kill more-A1
stats
questions
1 answer {a} x
pause
resume
log
accounts
queue
hosts
coders
1 doctor
gc --yes
workflow list
backup copy.tar.gz
supervisor
stop work --dry-run
cost
run stop
restore copy.tar.gz
update --help
completion bash
help names
version
mcp --help
demo --help
"""
#: Arguments that a verb needs; {a} to {d} are tasks.
WORDS = {
    "create": "more",
    "q": "more",
    "show": "{a}",
    "update": "{a} --priority 1",
    "close": "{a}",
    "done": "{a} because",
    "reopen": "{a}",
    "delete": "{d} --force",
    "dep": "{b} --blocks {c}",
    "dep add": "{a} {b}",
    "dep remove": "{a} {b}",
    "dep list": "{a}",
    "dep tree": "{a}",
    "dep relate": "{a} {c}",
    "dep unrelate": "{a} {c}",
    "comment": "{a} text",
    "comments": "{a}",
    "comments add": "{a} text",
    "label add": "{a} red",
    "label remove": "{a} red",
    "label list": "{a}",
    "label propagate": "{a} red",
    "tag": "{a} red",
    "search": "one",
    "children": "{a}",
    "import": "-",
    "config get": "mine",
    "config set": "mine x",
    "config unset": "mine",
    "assign": "{a} ada",
    "priority": "{a} 2",
    "note": "{a} text",
    "defer": "{a} --until +1d",
    "undefer": "{a}",
    "unclaim": "{a} --force",
}


@pytest.fixture
def typed(fleet: Program) -> Iterator[Program]:
    """Yield a program that is never forked, in a repository."""
    fleet.cwd = make_repository(fleet.cwd.parent / "repo")
    fleet.forks = False
    yield fleet
    fleet("run", "stop", "--stop-agents")


def test_every_command_starts_as_a_process(typed: Program) -> None:
    typed.ok("init", "--permissions", "user")
    names = {key: str(json.loads(typed.ok("bd", "create", key, "--json"))["id"]) for key in "abcd"}
    lines = [line.partition(" ")[2] if line[0].isdigit() else line for line in TYPED.strip().splitlines()]
    assert {line.split()[0] for line in lines} == COMMANDS.keys() - {"bd", "run"} | {"run"}
    wrong = []
    for line, words in zip(TYPED.strip().splitlines(), lines, strict=True):
        done = typed(*words.format_map(names).split())
        if done.code != (int(line[0]) if line[0].isdigit() else 0) or "bug in fleet" in done.err:
            wrong.append((line, done))
    assert not wrong, "\n".join(map(str, wrong))


def test_every_verb_of_bd_starts_as_a_process(typed: Program) -> None:
    typed.ok("init", "--permissions", "user")
    names = {key: str(json.loads(typed.ok("bd", "create", key, "--json"))["id"]) for key in "abcd"}
    wrong = []
    for verb in VERBS:
        done = typed("bd", *verb.split(), *WORDS.get(verb, "").format_map(names).split())
        if done.code or "bug in fleet" in done.err:
            wrong.append((verb, done))
    assert not wrong, "\n".join(map(str, wrong))
