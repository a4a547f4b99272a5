"""Answers in other programs' files: existing content stays, concurrent writers lose nothing, no link is followed."""

import json
import os
import threading
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet.coders import dialogs, load
from fleet.coders.base import Coder
from fleet.coders.dialogs import pre_answer, trust_folder
from fleet.core.errors import FleetError

KEY = {"ANTHROPIC_API_KEY": "a-key-that-is-longer-than-twenty"}


class Asking(Coder):
    """A coder whose wanted answers the test gives."""

    def __init__(self, name: str, wanted: dict[str, Any]) -> None:
        self.wanted = {name: wanted}

    def answered(self, folder: str, cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        return self.wanted


def answer(folder: Path, name: str = "a.json") -> None:
    pre_answer(Asking(name, {"x": 1}), str(folder), "/project", {})


def test_new_folder_gets_all_answers_with_private_modes(tmp_path: Path) -> None:
    pre_answer(load("claude"), str(tmp_path / "new"), str(tmp_path), KEY)
    known = json.loads((tmp_path / "new" / ".claude.json").read_text())
    assert known == {
        "hasCompletedOnboarding": True,
        "projects": {str(tmp_path): {"hasTrustDialogAccepted": True}},
        "customApiKeyResponses": {"approved": ["s-longer-than-twenty"]},
    }
    assert json.loads((tmp_path / "new" / "settings.json").read_text()) == {"skipDangerousModePermissionPrompt": True}
    assert (tmp_path / "new" / ".claude.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [".claude.json", "settings.json"]


def test_existing_answers_are_kept_and_extended(tmp_path: Path) -> None:
    path = tmp_path / ".claude.json"
    before = {
        "numStartups": 7,
        "hasCompletedOnboarding": False,
        "projects": {"/other": {"x": [1]}, "/project": {"history": ["ö"], "hasTrustDialogAccepted": False}},
        "customApiKeyResponses": {"approved": ["another"], "rejected": ["bad"]},
    }
    path.write_text(json.dumps(before))
    path.chmod(0o644)
    pre_answer(load("claude"), str(tmp_path), "/project", KEY)
    after = json.loads(path.read_text())
    assert after["numStartups"] == 7 and after["hasCompletedOnboarding"] is True
    assert after["projects"]["/other"] == {"x": [1]}
    assert after["projects"]["/project"] == {"history": ["ö"], "hasTrustDialogAccepted": True}
    assert after["customApiKeyResponses"] == {"approved": ["another", "s-longer-than-twenty"], "rejected": ["bad"]}
    assert path.stat().st_mode & 0o777 == 0o644


def test_answered_file_is_not_written_again(tmp_path: Path) -> None:
    for coder in (load("claude"), load("codex")):
        pre_answer(coder, str(tmp_path), "/project", KEY)
        before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
        pre_answer(coder, str(tmp_path), "/project", KEY)
        assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "an object is missing"),
        ('{"projects": []}', "an object is missing"),
        ("[" * 100_000, "is not JSON"),
        ("\udcff", "is not UTF-8"),
    ],
)
def test_broken_file_is_refused_and_unchanged(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / ".claude.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(FleetError, match=problem) as refused:
        pre_answer(load("claude"), str(tmp_path), "/project", {})
    assert str(path) in str(refused.value) and "move it away" in refused.value.hint
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")
    assert not (tmp_path / ".claude.json.lock").exists()


def test_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside.json"
    inside.mkdir()
    outside.write_text("{}")
    (inside / "a.json").symlink_to(outside)
    (inside / "dangling.json").symlink_to(tmp_path / "made.json")
    (inside / "sub").symlink_to(tmp_path)
    for name in ("a.json", "dangling.json", "sub/b.json"):
        with pytest.raises(FleetError, match="is a link"):
            answer(inside, name)
    assert outside.read_text() == "{}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside", "outside.json"]


def test_folder_reached_by_a_link_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    answer(tmp_path / "link")
    assert json.loads((tmp_path / "real" / "a.json").read_text()) == {"x": 1}


def test_other_kind_of_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(FleetError, match="not a file that a coder wrote"):
        answer(tmp_path)


def test_concurrent_writers_lose_no_answer(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text("{}")
    claude = load("claude")
    threads = [
        threading.Thread(target=pre_answer, args=(claude, str(tmp_path), f"/project-{number}", {}))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    known = json.loads((tmp_path / ".claude.json").read_text())
    assert sorted(known["projects"]) == sorted(f"/project-{number}" for number in range(20))


def test_lock_held_by_the_coder_is_waited_for(tmp_path: Path) -> None:
    path, lock = tmp_path / "a.json", tmp_path / "a.json.lock"
    lock.mkdir()
    thread = threading.Thread(target=answer, args=(tmp_path,))
    thread.start()
    time.sleep(0.2)
    assert not path.exists()
    path.write_text('{"theirs": 2}')
    lock.rmdir()
    thread.join()
    assert json.loads(path.read_text()) == {"theirs": 2, "x": 1}
    assert not lock.exists()


def test_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    lock = tmp_path / "a.json.lock"
    lock.mkdir()
    long_ago = time.time() - dialogs.STALE_SECONDS - 1
    os.utime(lock, (long_ago, long_ago))
    answer(tmp_path)
    assert (tmp_path / "a.json").exists() and not lock.exists()


def test_lock_that_is_never_released_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "PATIENCE_SECONDS", 0.1)
    (tmp_path / "a.json.lock").mkdir()
    with pytest.raises(FleetError, match=r"a\.json\.lock is held by another program"):
        answer(tmp_path)


TOMLS = {
    "nothing": "",
    "others": '# mine\nmodel = "x" # this one\n\n[features]\na = true\n',
    "the table": "[notice]\nmine = 1\n[features]\na = true",
    "the table within": '[notice.model_migrations] # known\n"a" = "b"\n',
    "both": '[notice]\nhide_rate_limit_model_nudge = true\n\n[notice.model_migrations]\n"a" = "b"\n[z]\n',
}


@pytest.mark.parametrize("name", TOMLS)
def test_lines_are_added_to_toml_and_comments_kept(name: str, tmp_path: Path) -> None:
    text, path = TOMLS[name], tmp_path / "config.toml"
    path.write_text(text)
    pre_answer(load("codex"), str(tmp_path), "/project", {})
    after = path.read_text()
    known = tomllib.loads(after)
    assert known["notice"]["hide_rate_limit_model_nudge"] is True
    assert known["notice"]["model_migrations"]["gpt-5.5"]
    before = tomllib.loads(text)
    assert before.get("features") == known.get("features") and before.get("model") == known.get("model")
    assert before.get("notice", {}).get("mine") == known["notice"].get("mine")
    assert [line for line in text.splitlines() if line not in after.splitlines()] == []


@pytest.mark.parametrize("text", ["notice = {mine = 1}\n", "[notice]\nhide_rate_limit_model_nudge = false\n"])
def test_toml_that_cannot_be_extended_is_unchanged(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(FleetError, match="cannot add to") as refused:
        pre_answer(load("codex"), str(tmp_path), "/project", {})
    assert "model_migrations" in refused.value.hint
    assert path.read_text() == text


def test_broken_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[")
    with pytest.raises(FleetError, match="is not TOML"):
        pre_answer(load("codex"), str(tmp_path), "/project", {})


def test_folder_is_trusted_in_the_file_of_the_user(tmp_path: Path) -> None:
    claude = load("claude")
    (tmp_path / ".claude.json").write_text('{"mine": 1}')
    assert trust_folder(claude, claude.config_folder({"HOME": str(tmp_path)}), str(tmp_path / "worktrees"))
    known = json.loads((tmp_path / ".claude.json").read_text())
    assert known == {"mine": 1, "projects": {str(tmp_path / "worktrees"): {"hasTrustDialogAccepted": True}}}
    assert claude.config_folder({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == "/c"


def test_coder_without_trust_dialog_writes_no_file(tmp_path: Path) -> None:
    demo = load("demo")
    assert trust_folder(demo, demo.config_folder({"HOME": str(tmp_path)}), "/w") is False
    pre_answer(demo, str(tmp_path), "/w", {})
    assert list(tmp_path.iterdir()) == []
