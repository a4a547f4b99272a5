"""The document of ai-fleet, typed as written: the happy path and the four examples.

Real git, a real tmux on its own socket, and the demo coder, whose agents work, stay and listen.
"""

import pytest

from supervised import wait_for
from terminals import LEAVE, Screen, Terminals, home

__all__ = ["home"]

REFACTORS = ["auth-refactor-A1", "auth-refactor-A2", "auth-refactor-A3"]
MULTI = ["fix-auth", "add-tests", "update-docs"]


def test_happy_path_demo_runs_as_written(home: Terminals) -> None:
    home.typed('fleet fanout 3 auth-refactor --prompt "refactor auth flow"')
    home.typed(
        'fleet multi fix-auth:"Fix login bug" add-tests:"Add auth module tests" update-docs:"Update API documentation"'
    )
    home.wait_alive(*REFACTORS, *MULTI)
    assert home.branches() == {*REFACTORS, *MULTI}
    assert home.sessions() == {f"ai_{branch}" for branch in [*REFACTORS, *MULTI]}

    rows = home.listed()
    assert {rows[branch]["batch"] for branch in REFACTORS} != {rows[branch]["batch"] for branch in MULTI}
    assert [prompts(home, branch) for branch in MULTI] == [
        ["Fix login bug"],
        ["Add auth module tests"],
        ["Update API documentation"],
    ]
    grouped = home.typed("fleet list --grouped        # see CPU/RAM per agent")
    assert in_order(grouped, rows["auth-refactor-A1"]["batch"], *REFACTORS) or in_order(grouped, *MULTI)
    assert "Fix login bug" in home.typed("fleet logs fix-auth -n 200  # tail")
    home.typed('fleet prompt fix-auth "run tests"')
    wait_for(lambda: "run tests" in prompts(home, "fix-auth"), "it to be heard", home.describe)

    assert_can_be_attached(home, "auth-refactor-A2", "refactor auth flow")

    home.typed("fleet kill --yes auth-refactor-A*    # glob supported")
    assert set(home.listed()) == set(MULTI)
    assert_nothing_orphaned(home)


def test_example_1_working_on_a_bug_fix_runs_as_written(home: Terminals) -> None:
    home.typed(
        "fleet create fix-login-bug --prompt "
        "\"Fix the bug where users can't login with email addresses containing '+' symbol\""
    )
    home.wait_alive("fix-login-bug")
    said = "Fix the bug where users can't login with email addresses containing '+' symbol"
    assert prompts(home, "fix-login-bug") == [said]
    assert said in home.typed("fleet logs fix-login-bug -n 100")
    home.typed('fleet prompt fix-login-bug "Make sure to handle URL encoding properly"')
    wait_for(
        lambda: prompts(home, "fix-login-bug")[1:] == ["Make sure to handle URL encoding properly"],
        "it to be heard",
        home.describe,
    )
    assert_can_be_attached(home, "fix-login-bug", "URL encoding")
    home.typed("fleet kill fix-login-bug")
    assert home.listed() == {}
    assert_nothing_orphaned(home)


def test_example_2_exploring_multiple_solutions_runs_as_written(home: Terminals) -> None:
    home.typed(
        "fleet fanout 3 refactor-auth --prompt "
        '"Refactor the authentication system to use JWT tokens instead of sessions"'
    )
    home.wait_alive("refactor-auth-A1", "refactor-auth-A2", "refactor-auth-A3")
    assert "refactor-auth-A3" in home.typed("fleet list --grouped")
    # The document uses letters: B is the second agent.
    assert "JWT tokens" in home.typed("fleet logs refactor-auth-B")
    home.typed("fleet kill refactor-auth-A")
    home.typed("fleet kill refactor-auth-C")
    assert set(home.listed()) == {"refactor-auth-A2"}
    assert home.sessions() == {"ai_refactor-auth-A2"}


def test_example_3_parallel_sprint_work_runs_as_written(home: Terminals) -> None:
    home.typed(
        "fleet multi \\\n"
        '  fix-432:"Fix user profile image upload bug" \\\n'
        '  feat-433:"Add dark mode toggle to settings" \\\n'
        '  test-434:"Add integration tests for payment flow" \\\n'
        '  docs-435:"Update API documentation for v2 endpoints"'
    )
    names = ["fix-432", "feat-433", "test-434", "docs-435"]
    home.wait_alive(*names)
    table = home.typed("fleet list")
    assert [name for name in names if name not in table] == []
    assert_can_be_attached(home, "feat-433", "dark mode")
    home.typed('fleet prompt feat-433 "Use CSS variables for theme colors"')
    wait_for(lambda: len(prompts(home, "feat-433")) == 2, "it to be heard", home.describe)
    assert [len(prompts(home, name)) for name in names] == [1, 2, 1, 1]
    home.typed("fleet kill fix-432")
    home.typed("fleet kill test-434")
    assert set(home.listed()) == {"feat-433", "docs-435"}


def test_example_4_quick_experimentation_runs_as_written(home: Terminals) -> None:
    (home.repo / ".fleet").mkdir()
    (home.repo / ".fleet" / "config.toml").write_text('[setup]\ncommands = ["touch set-up"]\n')
    home.typed("fleet trust")
    home.typed('fleet create experiment --prompt "Try using Redis for session storage" --quick')
    home.typed('fleet create experiment-2 --prompt "Try it with the setup commands"')
    home.wait_alive("experiment", "experiment-2")
    rows = home.listed()
    made = {name: (home.repo / row["worktree"] / "set-up").exists() for name, row in rows.items()}
    assert made == {"experiment": False, "experiment-2": True}
    home.typed('fleet kill "experiment*" --yes')
    assert home.listed() == {}
    assert_nothing_orphaned(home)


def test_fanout_without_a_prefix_has_unique_names_and_is_killed_as_a_batch(home: Terminals) -> None:
    first = home.told("fanout", "2", "--prompt", "refactor auth")
    second = home.told("fanout", "2", "--prompt", "refactor auth")
    names = [row["branch"] for row in [*first, *second]]
    assert len(set(names)) == 4
    assert all(name.startswith("fanout-") for name in names)
    assert [name.rpartition("-")[2] for name in names] == ["A1", "A2", "A1", "A2"]
    home.wait_alive(*names)
    (batch,) = {row["batch"] for row in first}
    killed = home.told("kill", "--batch", batch, "--yes")
    assert {row["branch"] for row in killed} == set(names[:2])
    assert set(home.listed()) == set(names[2:])


@pytest.mark.parametrize("alias", ["ls", "ps"])
def test_habitual_alias_lists_agents(home: Terminals, alias: str) -> None:
    home.typed('fleet create fix-42 --prompt "write failing test"')
    home.wait_alive("fix-42")
    assert "fix-42" in home.typed(f"fleet {alias}")
    assert "fix-42" in home.typed(f"flt {alias}")


def test_list_shows_what_the_document_promises(home: Terminals) -> None:
    """Branch, status, CPU and memory of the agent's processes, runtime and batch, and fields of the database."""
    home.typed('fleet fanout 1 fix --prompt "demo: steps=4"')
    home.wait_alive("fix-A1")
    measured = ("cpu_percent", "memory_mb")
    wait_for(
        lambda: None not in [home.listed()["fix-A1"][name] for name in measured],
        "a look at its processes",
        home.describe,
    )
    home.wait_listed("fix-A1", "idle")
    row = home.listed()["fix-A1"]
    assert row["memory_mb"] > 3 and row["cpu_percent"] < 100
    assert row["tokens"] > 0 and row["cost_usd"] > 0 and row["runtime_seconds"] >= 0
    assert row["diff"]["files"] == 1 and row["diff"]["added"] >= 1 and row["diff"]["removed"] == 0
    assert (row["coder"], row["repo"], row["session"]) == ("demo", str(home.repo), "ai_fix-A1")
    assert row["batch"] and row["batch"] in home.typed("fleet list --grouped")


def prompts(home: Terminals, branch: str) -> list[str]:
    """Return the prompts of an agent without fleet's instructions."""
    return [text.partition("\n\n---\n\n")[0].removesuffix("\n") for text in home.heard(home.listed()[branch]["task"])]


def in_order(text: str, *words: str) -> bool:
    """Return True if these words occur in this order."""
    places = [text.find(word) for word in words]
    return -1 not in places and places == sorted(places)


def assert_can_be_attached(home: Terminals, branch: str, shows: str) -> None:
    """Attach in a terminal, see the agent, and leave with Ctrl-b d; the agent survives."""
    screen = Screen(home, "attach", branch)
    screen.wait_for(shows)
    screen.press(LEAVE)
    assert screen.end() == 0
    assert f"ai_{branch}" in home.sessions()


def assert_nothing_orphaned(home: Terminals) -> None:
    """Check that worktrees and sessions belong to the listed agents."""
    rows = home.listed().values()
    assert home.worktrees() == {row["worktree"] for row in rows}
    assert home.sessions() == {row["session"] for row in rows}
    assert len(home.agents()) >= len(rows)
    assert home.fsck() == ""
