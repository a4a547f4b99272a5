"""Tool calls of agents, and the parts that are outside of their bounds."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet import coders
from fleet.core.event import Event, Kind
from fleet.home import Home
from fleet.proof.scope.bounds import bounds_of
from fleet.proof.scope.lookout import MOST_READ, UNREAD, Lookout
from fleet.settings import load
from unit.proof.scope.honest_lines import HONEST
from unit.proof.scope.hostile_lines import CERTAIN, DOUBTFUL
from unit.proof.scope.places import ENV, FLEET, TASK, TOP, TREE, USER, seen, use, worktree_bounds

OTHER = TREE.replace("fix-login", "other")
RECORDINGS = Path(__file__).parents[3] / "recordings"


def test_corpus_is_large_enough() -> None:
    assert len(set(HONEST)) >= 150
    assert len(set(CERTAIN)) + len(set(DOUBTFUL)) >= 120


def test_honest_command_is_not_reported() -> None:
    alarms = {line: found for line in HONEST if any(found := seen(use(line)))}
    assert alarms == {}


def test_certain_violation_is_reported() -> None:
    found = {line: seen(use(line)) for line in CERTAIN}
    assert [line for line, each in found.items() if not each.strayed] == []
    assert all(said.startswith("`") and said.isprintable() for each in found.values() for said in each.strayed)
    assert not any(each.undone for each in found.values())


def test_possible_violation_is_only_flagged() -> None:
    found = {line: seen(use(line)) for line in DOUBTFUL}
    assert {line: each for line, each in found.items() if each.strayed or len(each.doubts) != 1} == {}


SENTENCES = {
    f"rm -rf {TOP}/src": f"`rm -rf {TOP}/src` deletes {TOP}/src in the main checkout",
    "cd ~/project && git reset --hard": f"`git reset --hard` changes {TOP} in the main checkout",
    "echo x >> ../other/a": f"`echo x >> ../other/a` writes to {OTHER}/a in another worktree",
    "rm -rf ~/.fleet": f"`rm -rf ~/.fleet` deletes {FLEET} in fleet's home",
    "rm ~/.fleet/fleet.db": f"`rm ~/.fleet/fleet.db` deletes {FLEET}/fleet.db in fleet's home",
    "echo > ~/.bashrc": f"`echo > ~/.bashrc` writes to {USER}/.bashrc in the user's home",
    "git config alias.x '!y'": "`git config alias.x !y` sets alias.x, which decides what git runs in every checkout",
    "git branch -D main": "`git branch -D main` changes the branch main",
}


@pytest.mark.parametrize(("line", "said"), SENTENCES.items())
def test_report_names_action_and_path(line: str, said: str) -> None:
    assert seen(use(line)).strayed == [said]


TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("Bash", {"command": f"rm -rf {TOP}", "description": "clean"}),
    ("Write", {"file_path": f"{TOP}/a.py", "content": "x"}),
    ("Edit", {"file_path": "../other/a.py", "old_string": "a", "new_string": "b"}),
    ("MultiEdit", {"file_path": f"{TOP}/a.py", "edits": []}),
    ("NotebookEdit", {"notebook_path": f"{TOP}/a.ipynb"}),
    ("command_execution", {"command": f"/bin/bash -lc 'echo x > {TOP}/a'"}),
    ("file_change", {"changes": [{"path": "a.py", "kind": "add"}, {"path": f"{TOP}/a.py", "kind": "delete"}]}),
    ("exec_command", {"cmd": f"touch {TOP}/a", "workdir": TREE}),
    ("exec_command", {"cmd": "touch a", "workdir": TOP}),
    ("shell", {"command": ["bash", "-lc", f"cd {TOP} && rm a"]}),
    ("shell", {"command": ["rm", "-rf", TOP]}),
    ("apply_patch", {"input": f"*** Begin Patch\n*** Delete File: {TOP}/a.py\n*** End Patch\n"}),
    ("apply_patch", {"input": f"*** Begin Patch\n*** Update File: a\n*** Move to: {TOP}/a\n*** End Patch\n"}),
    ("run_shell_command", {"command": f"rm {TOP}/a", "description": "x"}),
    ("run_shell_command", {"command": "rm -rf .", "dir_path": "../other"}),
    ("write_file", {"file_path": f"{TOP}/a.py", "content": "x"}),
    ("replace", {"file_path": f"{TOP}/a.py", "old_string": "x", "new_string": "y"}),
    ("write", {"filePath": f"{TOP}/a.py", "content": "x"}),
    ("edit", {"path": f"{TOP}/a.py", "edits": [{"oldText": "x"}]}),
    ("str_replace_based_edit_tool", {"command": "create", "path": f"{TOP}/a.py", "file_text": "x"}),
    ("bash", {"command": f"echo x > {TOP}/a", "mode": "async"}),
    ("bd", {"argv": ["rm", "-rf", TOP]}),
]


@pytest.mark.parametrize(("tool", "data"), TOOLS)
def test_tools_of_all_coders_are_read(tool: str, data: dict[str, Any]) -> None:
    assert len(seen(use(tool=tool, **data)).strayed) == 1


INNOCENT: list[tuple[str, dict[str, Any]]] = [
    ("Read", {"file_path": f"{TOP}/a.py"}),
    ("read_file", {"path": f"{TOP}/a.py"}),
    ("Grep", {"pattern": "rm -rf", "path": TOP}),
    ("str_replace_based_edit_tool", {"command": "view", "path": f"{TOP}/a.py"}),
    ("Write", {"file_path": f"{TREE}/a.py", "content": f"rm -rf {TOP}"}),
    ("Write", {"file_path": f"{TASK}/artifacts/result.json", "content": "{}"}),
    ("Write", {"file_path": f"{USER}/.claude/plans/a-plan.md", "content": "x"}),
    ("write_file", {"file_path": "/tmp/a", "content": "x"}),
    ("Task", {"prompt": f"rm -rf {TOP}", "description": "x"}),
    ("SlashCommand", {"command": "/compact"}),
    ("TodoWrite", {"todos": [{"content": f"rm -rf {TOP}"}]}),
    ("web_search", {"query": f"rm -rf {TOP}"}),
    ("apply_patch", {"input": f"*** Begin Patch\n*** Add File: a\n+*** Delete File: {TOP}/a\n*** End Patch\n"}),
    ("Bash", {"command": 7}),
    ("Write", {"file_path": None}),
    ("file_change", {"changes": ["x", {}, None]}),
    ("Bash", {}),
]


@pytest.mark.parametrize(("tool", "data"), INNOCENT)
def test_reading_or_inside_writing_tool_is_not_reported(tool: str, data: dict[str, Any]) -> None:
    event = Event(kind=Kind.TOOL_USE, tool=tool, tool_id="1", data=data)
    assert seen(event) == ([], [], [])


def test_tool_of_another_program_may_work_elsewhere() -> None:
    found = seen(use(tool="mcp__server__execute", command=f"rm -rf {TOP}"))
    assert found.strayed == []
    assert len(found.doubts) == 1


REFUSALS = [
    Event(kind=Kind.TOOL_RESULT, tool_id="1", ok=False, text="Permission to use Bash has been denied."),
    Event(kind=Kind.TOOL_RESULT, tool_id="1", ok=False, text="This command requires approval"),
    Event(kind=Kind.DENIED, tool="Bash", tool_id="1"),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_denied_action_is_reported_as_an_attempt(refusal: Event) -> None:
    said = f"`rm -rf {TOP}` deletes {TOP} in the main checkout"
    assert seen(use(f"rm -rf {TOP}"), refusal) == ([], [f"{said}, but was not allowed to"], [said])
    lookout = Lookout(worktree_bounds())
    assert lookout.look([use(f"rm -rf {TOP}")]).strayed == [said]
    assert lookout.look([refusal]).undone == [said]
    assert lookout.look([refusal]) == ([], [], [])


@pytest.mark.parametrize(
    "result",
    [
        Event(kind=Kind.TOOL_RESULT, tool_id="1", ok=True, text="permission denied, said a file that it printed"),
        Event(kind=Kind.TOOL_RESULT, tool_id="1", ok=False, text="Exit code 1\nrm: x: Permission denied"),
        Event(kind=Kind.TOOL_RESULT, tool_id="1", ok=False, text="no such file"),
        Event(kind=Kind.TOOL_RESULT, tool_id="2", ok=False, text="Permission denied"),
        Event(kind=Kind.DENIED, tool="Bash"),
    ],
)
def test_failed_action_is_reported_as_possibly_done(result: Event) -> None:
    assert len(seen(use(f"rm -rf {TOP}; false"), result).strayed) == 1


def test_shell_keeps_its_directory_between_lines() -> None:
    lookout = Lookout(worktree_bounds())
    assert lookout.look([use("cd src/deep"), use("rm -rf ../../build"), use("cd ..")]) == ([], [], [])
    assert lookout.directory == f"{TREE}/src"
    later = Lookout(worktree_bounds(), directory=lookout.directory)  # after a restart
    assert later.look([use("rm -rf ../build")]) == ([], [], [])
    assert len(Lookout(worktree_bounds()).look([use("rm -rf ../build")]).strayed) == 1


def test_link_created_in_one_line_is_known_in_the_next() -> None:
    found = seen(use(f"ln -s {TOP} there"), use("echo x > there/a.py"), use(tool="Write", file_path=f"{TREE}/there/b"))
    assert [said.partition(" writes to ")[2] for said in found.strayed] == [
        f"{TOP}/a.py in the main checkout",
        f"{TOP}/b in the main checkout",
    ]


def test_report_appears_once_and_contains_no_secrets() -> None:
    secret = "hunter2hunter2"
    lookout = Lookout(worktree_bounds(), clean=lambda text: text.replace(secret, "[redacted]"))
    line = f"curl -H 'X-Key: {'x' * 85}{secret}' -o {TOP}/a https://example.invalid"
    found = lookout.look([use(line), use(line, call="2")])
    assert len(found.strayed) == 1
    assert "hunter" not in found.strayed[0]


def test_report_contains_no_terminal_escapes() -> None:
    found = seen(use(f"rm -rf {TOP} $'\\x1b[2J' '\x1b]0;x\x07' \u202e" + "x" * 5000))
    assert all(said.isprintable() and len(said) < 400 for said in found.strayed)


def test_plain_directory_is_its_own_checkout(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    bounds = bounds_of(Home(FLEET), TASK, str(tmp_path / "sub"), None, ENV)
    fine = [
        *("git commit -am x", "rm -rf ../build", "git config user.email a@b", "rm -f ../.git/index.lock"),
        *("git push origin main", "git branch -D old", f"echo x > {tmp_path}/a", "git stash clear"),
    ]
    assert seen(*map(use, fine), bounds=bounds) == ([], [], [])
    wrong = [f"rm -rf {tmp_path}/.git", f"echo x > {tmp_path}/.git/hooks/pre-commit", "git config core.fsmonitor x"]
    assert len(seen(*map(use, wrong), bounds=bounds).strayed) == 3
    assert len(seen(use(f"rm -rf {TOP}"), bounds=bounds).strayed) == 1


def test_recordings_of_real_coders_are_not_reported(tmp_path: Path) -> None:
    settings, calls = load(Home(str(tmp_path))), 0
    bounds = bounds_of(Home(FLEET), TASK, "/project", None, ENV)
    for file in sorted(RECORDINGS.glob("coders/*/*.jsonl")):
        coder = coders.load(file.parent.name, settings)
        for line in file.read_text("utf-8").split("\n"):
            events = list(coder.parse(line))
            calls += sum(event.kind == Kind.TOOL_USE for event in events)
            ours = [event for event in events if "/repo/hello.txt" not in json.dumps(event.data)]
            assert seen(*ours, bounds=bounds) == ([], [], []), (file, line)
    assert calls > 40


HEAVY = [
    *('node -e "' + "exec('a" * 9000, "python -c '" + 'system(["' * 6000),
    *("$(" * 40_000, "(" * 70_000, "'\"" * 40_000, '"$(' * 30_000, "`" * 70_001, "<<A " * 20_000, "cat <<A\n" * 10_000),
    *("rm " + "{a,b}" * 12_000, "rm " + "{a,{" * 15_000, "touch " + "{a,b}{c,d}{e,f} " * 4000, "cd a;" * 13_000),
    *("rm " + "../" * 20_000, "A=$A$A;" * 9000, f"rm -rf {TOP} " * 3000, "bash -c '" * 7000, "eval " * 13_000),
    *("sudo " * 13_000, "if " * 20_000, "for x in " + "a " * 30_000 + ";do rm $x;done", ">a " * 20_000, "\\" * 65_000),
    *(
        'python -c "' + "os.remove( " * 6000,
        "python -c \"Path('/" + "a" * 60_000,
        "git config " + "a." * 30_000 + "x y",
    ),
    *(
        "ln -s / a;" * 6000,
        "rm" + " a" * 32_000,
        "rm /" + "a/" * 32_000,
        "find a -exec rm {} ; " * 3000,
        "x" * 1_000_000,
    ),
]


def test_large_command_line_is_read_to_its_end() -> None:
    for line in HEAVY:  # quadratic code takes minutes; bench_limits has a limit for each
        seen(use(line))


def test_amount_read_at_once_is_bounded() -> None:
    many = [use("echo " + "x" * 60_000, call=str(number)) for number in range(MOST_READ // 60_000 + 2)]
    assert seen(*many, use(f"rm -rf {TOP}")).doubts == [UNREAD]
    lookout = Lookout(worktree_bounds())
    lookout.look(many)
    assert len(lookout.look([use(f"rm -rf {TOP}")]).strayed) == 1, "the next look reads on"
