"""Names and prompts designed to be misread by a shell, git, tmux, a terminal or a path.

A name is refused without effect, or becomes an ordinary branch name. A prompt arrives unchanged.
"""

from pathlib import Path

import pytest

from program import Program
from repositories import files_below, run_git
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]

HOSTILE = [
    *("-B", "--force", "-D", "-", "--", "--detach", "--upload-pack=touch PWNED", "-b", "--exec=touch PWNED"),
    *("../escape", "a/../../escape", "/etc/passwd", "~/escape", "a//b", "a/", "./a", ".git/hooks/pre-commit"),
    *(
        "$(touch PWNED)",
        "`touch PWNED`",
        "a;touch PWNED",
        "a|touch PWNED",
        "a&touch PWNED&",
        "a\ntouch PWNED",
        "#{pid}",
    ),
    *(
        "HEAD",
        "main",
        "refs/heads/main",
        "@",
        "@{-1}",
        "main@{0}",
        "a..b",
        "a^",
        "a~1",
        "a:b",
        "a?b",
        "a[b",
        "a\\b",
        "a b",
    ),
    *("a.lock", "a.", ".hidden", "a/.hidden", "", " ", "\x1b]0;owned\x07", "a\x7f", "ü" * 60, "a" * 300, "%(refname)"),
    *("0123456789abcdef0123456789abcdef01234567", "'", '"', "a'b", "!!", "=ai_other", "\udcff"),
]
#: Odd names that are allowed.
ODD = ["a.b.c", "A/b/C-9", "kill", "list", "v1.0-rc.2", "x-A1", "1", "main-2", "head", "feature/_x"]
ODD += ["fix/#432", "user@feat", "_x", "c++"]
PROMPTS = {
    "apostrophe": "don't 'break' it's 'quoted",
    "double": 'say "hello" and "$HOME"',
    "command": "$(touch PWNED) `touch PWNED` ${IFS} ; touch PWNED & | > PWNED",
    "lines": "first line\nsecond line\n\n\tfourth, with a tab\n  and spaces",
    "option": "--dangerously-skip-permissions -p --help",
    "keys": "C-c Enter Escape ; kill-server \\; C-b d",
    "percent": "%s %n %d {task_id} {0} #{pane_id} #(touch PWNED)",
    "backslash": "C:\\new\\table \\n \\x1b[201~",
    "unicode": "Grüße, 你好, 🚀, e\u0301, \u202eright to left",
    "trailing": "ends in a backslash \\",
    "semicolon": "ends in a semicolon;",
    "long": "every word of it counts. " * 2000 + "the end",
}
BASES = ["--output=PWNED", "-h", "nowhere", "main..main", "main:file1.txt", "HEAD:", "refs/heads/nowhere", "a b"]


def test_hostile_names_are_refused_and_nothing_is_created(home: Terminals) -> None:
    assert len(HOSTILE) >= 40
    home.told("create", "harmless", "--prompt", "work")
    home.wait_alive("harmless")
    before = facts(home)
    for number, name in enumerate(HOSTILE):
        words = ("create", name, "--prompt", "work") if number % 2 else ("create", "--prompt", "work", "--", name)
        result = home.fleet(*words)
        assert result.code != 0 and result.err.startswith("error: "), (words, result)
        assert not set("\x1b\x07\x7f\x00") & set(result.out + result.err), (words, result)
    for name in HOSTILE[::8]:
        assert home.fleet("fanout", "2", "--prompt", "work", "--", f"{name}/..").code != 0, name
    assert facts(home) == before


def test_odd_names_work_like_any_other(home: Terminals) -> None:
    made = {name: home.told("create", name, "--prompt", "work") for name in ODD}
    home.wait_alive(*ODD)
    assert home.branches() == set(ODD)
    assert len({row["worktree"] for row in made.values()}) == len(home.sessions()) == len(ODD)
    for name, row in made.items():
        assert run_git(Path(row["worktree"]), "branch", "--show-current") == name
    for name in ODD:
        home.fleet.ok("kill", "--delete-branch", "--", name)
    assert (home.branches(), home.worktrees(), home.sessions()) == (set(), set(), set())


def test_hostile_name_matches_no_agent(home: Terminals) -> None:
    """Commands that read or end agents accept hostile names too, and find no agent."""
    home.told("create", "harmless", "--prompt", "work")
    home.wait_alive("harmless")
    before = facts(home)
    for name in ["harm", "=harmless", "harmless/..", "refs/heads/harmless"]:
        for words in (["kill"], ["logs"], ["diff"], ["done"], ["attach"], ["prompt"]):
            more = ["hello"] if words == ["prompt"] else []
            result = home.fleet(*words, "--", name, *more)
            assert result.code != 0, (words, name, result)
    assert facts(home) == before
    assert len(home.heard(home.listed()["harmless"]["task"])) == 1


@pytest.mark.parametrize("base", BASES)
def test_base_must_be_a_commit(home: Terminals, base: str) -> None:
    result = home.fleet("create", "based", "--prompt", "work", f"--base={base}")
    assert result.code != 0 and result.err.startswith("error: "), result
    assert facts(home) == (set(), set(), set(), [], [])


@pytest.mark.parametrize("kind", PROMPTS)
def test_prompt_arrives_unchanged(home: Terminals, kind: str) -> None:
    prompt = PROMPTS[kind]
    made = home.told("create", "prompted", f"--prompt={prompt}")
    home.wait_alive("prompted")
    assert home.heard(made["task"])[0].startswith(prompt)
    home.fleet.ok("prompt", "prompted", "--", prompt)
    wait_heard(home, made["task"], prompt)
    assert pwned(home) == []


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_prompt_of_200_kilobytes_arrives_unchanged(home: Terminals, tmp_path: Path, way: str) -> None:
    lines = [f"line {number}: don't $(touch PWNED) \"lose\" a 'word'" for number in range(5000)]
    prompt = "\n".join(lines)
    assert len(prompt) > 200_000
    file = tmp_path / "prompt.txt"
    file.write_text(prompt)
    words = ["--prompt-file", str(file)] if way == "file" else ["-"]
    made = home.told("create", "prompted", *words, stdin=prompt)
    home.wait_alive("prompted")
    assert home.task(made["task"])["description"].strip() == prompt
    assert prompt in read_by_agent(home, made["task"])
    assert pwned(home) == []


def test_multi_splits_each_argument_at_its_first_colon(home: Terminals, tmp_path: Path) -> None:
    home.told("multi", "one:fix: it's a 'colon' : $(touch PWNED)", "two:http://example.invalid/x?y=z&a")
    file = tmp_path / "many"
    file.write_text('three:don\'t\nfour: "quoted"\n')
    home.told("multi", "--file", str(file))
    names = ["one", "two", "three", "four"]
    home.wait_alive(*names)
    rows = home.listed()
    heard = {name: home.heard(rows[name]["task"])[0].partition("\n\n---\n\n")[0].strip() for name in names}
    assert heard == {
        "one": "fix: it's a 'colon' : $(touch PWNED)",
        "two": "http://example.invalid/x?y=z&a",
        "three": "don't",
        "four": '"quoted"',
    }
    assert pwned(home) == []


def test_home_and_repository_work_when_their_names_are_hostile(fleet: Program, tmp_path: Path) -> None:
    base = tmp_path / 'it\'s "a" $(touch PWNED) #{pid} ;'
    base.mkdir()
    inner = Program(base)
    home = Terminals(inner)
    try:
        made = home.told("create", "fix-42", "--prompt", "work")
        home.wait_alive("fix-42")
        assert "work" in home.typed("fleet logs fix-42")
        assert run_git(Path(made["worktree"]), "branch", "--show-current") == "fix-42"
        home.fleet.ok("kill", "fix-42")
        assert (home.worktrees(), home.sessions()) == (set(), set())
        assert [file for file in files_below(tmp_path) if file.name == "PWNED"] == []
    finally:
        home.stop()


def facts(home: Terminals) -> tuple[set[str], set[str], set[str], list[str], list[str]]:
    """Return everything that a command could have created by mistake."""
    tasks = [str(row["id"]) for row in home.rows("select id from tasks order by id")]
    return home.branches(), home.worktrees(), home.sessions(), tasks, pwned(home)


def pwned(home: Terminals) -> list[str]:
    """Return the traces of commands that must never run."""
    places = (home.repo, home.fleet.home, home.fleet.user)
    return [str(path) for place in places for path in place.rglob("PWNED*")]


def wait_heard(home: Terminals, task: str, prompt: str) -> None:
    """Wait until an agent at its prompt received exactly this text."""
    wait_for(lambda: len(home.heard(task)) > 1, "it to be heard", home.describe)
    assert home.heard(task)[1:] == [prompt.strip("\n")]


def read_by_agent(home: Terminals, task: str) -> str:
    """Return the agent's messages, and the file that replaces a prompt too long for an argument."""
    files = (home.fleet.home / "tasks" / task).glob("runs/1/prompt.md")
    return "\n".join([*home.heard(task), *(path.read_text("utf-8") for path in files)])
