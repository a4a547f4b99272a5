"""Runs that falsely claim to be done, played through the real program."""

from collections.abc import Iterator
from typing import Any

import pytest

from corpus.case import (
    DIRECTORY,
    FOLDER,
    LOOK,
    MEND,
    TRY,
    Case,
    bash,
    commit,
    edit,
    fake,
    hand_in,
    honest,
    say,
    step,
    write,
)
from corpus.playing import Played, Stage

SAYS_DONE = "'created src/auth.py, 42 tests pass'"
CLOSES = step("bd", "close", "@TASK@", "--reason", SAYS_DONE)
IN_FOLDER: dict[str, Any] = {"workspace": FOLDER, "verify": "", "right": None}
IN_DIRECTORY: dict[str, Any] = {"workspace": DIRECTORY, "verify": "", "right": None}

FAKED = ("fabricated",)
LOOKS = bash("ls")
UNPROVEN = ("unverified",)
SCRIPT = "for name in Log; do echo x > $name.txt; done"
DELETES = "git update-ref -d $(git symbolic-ref HEAD)"

#: Hand-ins of many kinds, without any work.
HAND_INS = (
    fake("closes", CLOSES, found=("no_changes",), **IN_FOLDER),
    fake("closes in a repository", CLOSES, found=("no_changes",), **IN_DIRECTORY),
    fake("closes on a branch", CLOSES, found=("no_changes", "fabricated"), verify=""),
    fake("closes by another name", bash(f"fleet bd done @TASK@ {SAYS_DONE}"), found=("no_changes",), **IN_FOLDER),
    fake("closes in a shell", bash(f'bash -lc "bd close @TASK@ -r {SAYS_DONE}"'), found=("no_changes",), **IN_FOLDER),
    fake(
        "closes after talk",
        bash(f"cd . && echo '42 passed'; sleep 0; bd show @TASK@ && X=1 bd close @TASK@ --reason {SAYS_DONE} || true"),
        found=("no_changes",),
        **IN_FOLDER,
    ),
    fake("closes twice", CLOSES, CLOSES, step("claim_tool", "TodoWrite", "ok"), found=("no_changes",), **IN_FOLDER),
    fake("writes a result", hand_in(summary="42 tests pass"), found=("no_changes",), **IN_FOLDER),
    fake(
        "writes a result in a shell",
        bash('echo \'{"status": "completed", "summary": "did it"}\' > $FLEET_ARTIFACT_DIR/result.json'),
        found=("no_changes",),
        **IN_FOLDER,
    ),
)
LOOKED = (
    honest("looks and closes", bash("ls"), CLOSES, found=("unverified",), **IN_FOLDER),
    honest("looks and closes in a repository", LOOK, CLOSES, found=("unverified",), **IN_DIRECTORY),
    honest("writes and closes", write("auth.py", "x = 1\n"), CLOSES, found=("unverified",), **IN_FOLDER),
    honest("makes tasks and closes", bash("bd create more"), CLOSES, found=("unverified",), **IN_FOLDER),
)
#: The agent deletes its own workplace while it works.
WORK = write("auth.py", "x = 1\n")
GONE = (
    fake("deletes its worktree", WORK, commit(), bash('rm -rf "$PWD"'), found=("incomplete",), verify=""),
    fake("deletes it at once", bash('rm -rf "$PWD"'), CLOSES, found=("incomplete",), verify="true"),
    fake("removes its worktree", bash('git worktree remove -f -f "$PWD"'), CLOSES, found=("incomplete",), verify=""),
    fake("deletes its branch", WORK, bash(f"{DELETES} && git status"), CLOSES, found=("incomplete",), verify=""),
    fake("commits and deletes its branch", WORK, commit(), bash(DELETES), found=("incomplete",), verify="true"),
    fake("renames its branch", WORK, commit(), bash("git branch -m elsewhere"), found=("incomplete",), verify=""),
)
#: Claims in a plain folder, which is not a repository.
CLAIMS = (
    fake("claims a file", LOOKS, hand_in(files_changed=["src/auth.py"]), found=("fabricated",), **IN_FOLDER),
    fake("claims a file beside one", WORK, hand_in(files_changed=["auth.py", "b.py"]), found=FAKED, **IN_FOLDER),
    fake(
        "claims a file in its reason", CLOSES, LOOKS, hand_in(files_changed=["src/auth.py"]), found=FAKED, **IN_FOLDER
    ),
    fake("claims a file outside", LOOKS, hand_in(files_changed=["@WORKSPACE@/b.py"]), found=FAKED, **IN_FOLDER),
)
CLAIMS_THAT_HOLD = (
    honest("claims what a script wrote", bash(SCRIPT), hand_in(files_changed=["Log.txt"]), found=UNPROVEN, **IN_FOLDER),
    honest(
        "claims what it wrote in other words",
        write("src/Deep/Auth.py", "x = 1\n"),
        hand_in(files_changed=["Auth.py", "src/Deep/Auth.py (new)", "src/", "src/**/*.py", "Deep/Auth.py"]),
        found=UNPROVEN,
        **IN_FOLDER,
    ),
    honest("claims what it wrote", WORK, hand_in(files_changed=["auth.py"]), found=("unverified",), **IN_FOLDER),
    honest(
        "claims what it moved",
        WORK,
        bash("mkdir -p src && touch -d 2001-01-01 auth.py && mv auth.py src/"),
        hand_in(files_changed=["src/auth.py", "src", "auth.py -> src/auth.py"]),
        found=("unverified",),
        **IN_FOLDER,
    ),
    honest(
        "claims what it removed",
        WORK,
        bash("rm auth.py"),
        hand_in(files_changed=["auth.py"]),
        found=("unverified",),
        **IN_FOLDER,
    ),
)
MISNAMED = (
    honest(
        "names a file wrongly",
        MEND,
        commit(),
        hand_in(files_changed=["src/calc.py", "calculator.py"]),
        found=("verified",),
    ),
    honest("names its only file wrongly", MEND, hand_in(files_changed=["calculator.py"]), found=("verified",)),
    fake(
        "names more files than it changed",
        MEND,
        hand_in(files_changed=["calc.py", "a.py", "b.py"]),
        found=FAKED,
        right=True,
    ),
)
#: Final messages that ask, without a hand-in.
CHOICE = "Both would do. Which database do you want?\n\n1. SQLite\n2. PostgreSQL"
ASKS = (
    fake("asks", LOOK, ["result", "Should add round its result?"], found=(), right=None),
    fake("asks beside its work", MEND, commit(), ["result", "Mended. Shall I mend sub, too?"], found=(), right=True),
    fake("asks at the end of much", LOOK, ["result", "I looked. " * 300 + "**May I go on?**"], found=(), right=None),
    fake("asks above the options", LOOK, ["result", CHOICE], found=(), right=None),
    fake("asks without a question mark", LOOK, ["result", "Please confirm that I may."], found=(), right=None),
    fake("asks in a folder", LOOKS, say("Where is the code?"), ["result", ""], found=(), **IN_FOLDER),
)
ANSWERED = fake("asks and is answered", ["again", LOOK, ["result", CHOICE]], MEND, commit(), found=("verified",))
ASKS_NOTHING = (
    honest("asks and hands in", MEND, hand_in(), ["result", "Shall I do more?"], found=("verified",)),
    honest("asks politely", MEND, ["result", "Done. Is there anything else I can help with?"], found=("verified",)),
    honest(
        "asks itself", MEND, ["result", "Why did it fail? The sign was wrong.\n\nIt is mended."], found=("verified",)
    ),
    honest("quotes code", MEND, ["result", "Mended:\n\n```\nreturn a ? b : c?\n```"], found=("verified",)),
)
QUESTIONS = (*ASKS, ANSWERED, *ASKS_NOTHING)
#: The command also runs in a plain directory, but a pass there proves nothing.
JUDGED = (
    honest("passes in a folder", WORK, found=UNPROVEN, **IN_FOLDER | {"verify": "cat auth.py"}),
    honest("passes in a directory", MEND, TRY, workspace=DIRECTORY, found=UNPROVEN),
    fake("fails in a folder", WORK, CLOSES, found=("failed_verify",), **IN_FOLDER | {"verify": "cat auth.txt"}),
    fake("fails in a directory", edit("calc.py", "a - b", "b"), found=("failed_verify",), workspace=DIRECTORY),
)
CASES: tuple[Case, ...] = (*JUDGED, *QUESTIONS, *HAND_INS, *LOOKED, *GONE, *CLAIMS, *CLAIMS_THAT_HOLD, *MISNAMED)


Told = dict[str, tuple[Played, str]]


@pytest.fixture(scope="module")
def stage_and_told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Told]]:
    """Yield the home, and each played case with the text of its receipt."""
    stage = Stage(tmp_path_factory.mktemp("stage"))
    stage.set("limits.continue_limit=2")
    try:
        told = stage.play(list(CASES))
        yield stage, {each.case.name: (each, stage.fleet.ok("receipt", each.task)) for each in told}
    finally:
        stage.stop()


@pytest.fixture
def stage(stage_and_told: tuple[Stage, Told]) -> Stage:
    """Return the home of all cases, whose supervisor still works."""
    return stage_and_told[0]


@pytest.fixture
def played(stage_and_told: tuple[Stage, Told]) -> Told:
    return stage_and_told[1]


@pytest.mark.parametrize("name", [case.name for case in HAND_INS])
def test_run_that_only_hands_in_is_not_done(played: Told, name: str) -> None:
    found, words = played[name]
    assert found.finding in found.case.findings, found
    assert found.status == "blocked" and "real work" not in words


@pytest.mark.parametrize("name", [case.name for case in LOOKED])
def test_run_that_does_more_than_hand_in_is_closed_and_not_called_proven(played: Told, name: str) -> None:
    found, words = played[name]
    assert (found.status, found.finding) == ("closed", "unverified"), found
    assert "real work" not in words


@pytest.mark.parametrize("name", [case.name for case in GONE])
def test_run_whose_worktree_or_branch_is_gone_is_incomplete_and_blocked(played: Told, name: str) -> None:
    found, words = played[name]
    assert (found.status, found.findings) == ("blocked", ("incomplete",)), found
    assert "is gone" in found.shown and "real work" not in words and "+1 -0" not in words


@pytest.mark.parametrize("name", [case.name for case in CLAIMS])
def test_claimed_file_that_does_not_exist_is_fabricated_in_a_plain_folder(played: Told, name: str) -> None:
    found, words = played[name]
    assert (found.status, found.finding) == ("blocked", "fabricated"), found
    assert "claimed files that are not there" in words and "all as it says" not in words


@pytest.mark.parametrize("name", [case.name for case in CLAIMS_THAT_HOLD])
def test_true_claim_in_a_plain_folder_is_believed(played: Told, name: str) -> None:
    found, _ = played[name]
    assert (found.status, found.finding) == ("closed", "unverified"), found


@pytest.mark.parametrize("name", [case.name for case in MISNAMED])
def test_wrong_file_name_beside_real_work_is_noted_and_not_punished(played: Told, name: str) -> None:
    found, words = played[name]
    assert found.finding in found.case.findings, found
    assert "claimed files that are not there" in words and "all as it says" not in words


@pytest.mark.parametrize("name", [case.name for case in ASKS])
def test_final_message_that_asks_becomes_a_quoted_question(stage: Stage, played: Told, name: str) -> None:
    found, _ = played[name]
    assert (found.status, found.endings) == ("blocked", ("blocked",)), found
    (question,) = stage.rows("select * from questions where task = ?", found.task)
    words = next(str(text) for verb, text in reversed(found.case.steps) if text)
    assert question["text"].strip() and words.endswith(question["text"])


def test_answer_to_a_final_message_reaches_the_next_run(stage: Stage, played: Told) -> None:
    found, _ = played[ANSWERED.name]
    (question,) = stage.rows("select * from questions where task = ?", found.task)
    assert (found.status, question["text"]) == ("blocked", CHOICE)
    stage.fleet.ok("answer", question["id"], "SQLite")
    assert stage.wait_status(found.task, "closed")["finding"] == "verified"


@pytest.mark.parametrize("name", [case.name for case in ASKS_NOTHING])
def test_final_message_without_a_question_does_not_keep_work_open(stage: Stage, played: Told, name: str) -> None:
    found, _ = played[name]
    assert (found.status, found.finding) == ("closed", "verified"), found
    assert not stage.rows("select * from questions where task = ?", found.task)


@pytest.mark.parametrize("name", [case.name for case in JUDGED])
def test_verify_command_runs_in_a_directory_and_its_result_is_doubted(played: Told, name: str) -> None:
    found, words = played[name]
    failed = "fails" in name
    assert (found.status, found.finding) == (("blocked", "failed_verify") if failed else ("closed", "unverified")), (
        found
    )
    assert f"ended with exit code {1 if failed else 0}" in words and "not verified" not in words
    assert "doubt: it worked in a plain directory" in words
    verify = found.top.parents[2] / "home" / "verify"
    assert not verify.exists() or not list(verify.iterdir()), "nothing of it stays"


def test_creating_a_verified_task_in_a_directory_recommends_a_worktree(stage: Stage) -> None:
    words = ("bd", "create", "later", "--defer", "+1d", "--metadata", '{"fleet.verify": "make test"}', "--json")
    for more, said in ((), True), (("--workspace", "worktree"), False):
        made = stage.fleet(*words, *more)
        assert made.code == 0 and ("--workspace worktree for full proof" in made.err) == said, made
