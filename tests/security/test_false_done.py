"""Runs that say they are done and are not, played through the real program."""

from collections.abc import Iterator
from typing import Any

import pytest

from corpus.case import DIRECTORY, FOLDER, LOOK, Case, bash, fake, hand_in, honest, step, write
from corpus.playing import Played, Stage

SAYS_DONE = "'created src/auth.py, 42 tests pass'"
CLOSES = step("bd", "close", "@TASK@", "--reason", SAYS_DONE)
IN_FOLDER: dict[str, Any] = {"workspace": FOLDER, "verify": "", "right": None}
IN_DIRECTORY: dict[str, Any] = {"workspace": DIRECTORY, "verify": "", "right": None}

#: Handing in, in many words, and nothing else.
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
CASES: tuple[Case, ...] = (*HAND_INS, *LOOKED)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Played, str]]]:
    """Each case as it was played, and the words of its receipt."""
    stage = Stage(tmp_path_factory.mktemp("stage"))
    stage.set("limits.continue_limit=2")
    try:
        told = stage.play(list(CASES))
        yield {each.case.name: (each, stage.fleet.ok("receipt", each.task)) for each in told}
    finally:
        stage.stop()


Told = dict[str, tuple[Played, str]]


@pytest.mark.parametrize("name", [case.name for case in HAND_INS])
def test_run_that_only_hands_in_is_not_done(played: Told, name: str) -> None:
    found, words = played[name]
    assert found.finding in found.case.findings, found
    assert found.status == "blocked" and "real work" not in words


@pytest.mark.parametrize("name", [case.name for case in LOOKED])
def test_run_that_does_more_than_hand_in_is_closed_without_calling_it_proven_work(played: Told, name: str) -> None:
    found, words = played[name]
    assert (found.status, found.finding) == ("closed", "unverified"), found
    assert "real work" not in words
