"""task.json as people change it between the runs of a task, and as agents try to."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from supervised import CODER, Supervised, home

__all__ = ["home"]


def task_json(home: Supervised, key: str) -> Path:
    folder = home.fleet.home / "tasks" / key
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "task.json"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    made = tmp_path / "other project"
    made.mkdir()
    return made


def test_task_json_sets_cwd_coder_and_model_for_every_run(home: Supervised, other: Path) -> None:
    home.set("limits.retry_limit=2", "coder=claude")
    key = home.create("fail")
    task_json(home, key).write_text(json.dumps({"cwd": str(other), "coder": CODER, "model": "m-1"}))
    shown = home.fleet.ok("show", key)
    assert (f"cwd:         {other}\n" in shown, f"{CODER}\n" in shown, "m-1\n" in shown) == (True, True, True)
    assert f"[cwd: {other}, coder: {CODER}, model: m-1]" in home.fleet.ok("ready")
    home.start()
    home.wait_status(key, "blocked")
    assert [(run["workspace"], run["coder"], run["model"]) for run in home.runs(key)] == [
        (str(other), CODER, "m-1")
    ] * 2


def test_task_json_edited_before_the_first_run_applies_to_every_run(home: Supervised, other: Path) -> None:
    home.set("limits.retry_limit=2")
    key = home.create("fail")
    task_json(home, key).write_text(json.dumps({"cwd": str(other), "model": "m-1"}))
    home.start()
    home.wait_status(key, "blocked")
    assert [(run["workspace"], run["model"]) for run in home.runs(key)] == [(str(other), "m-1")] * 2


def test_sed_on_task_json_applies_to_every_later_run(home: Supervised) -> None:
    home.set("limits.retry_limit=1")
    key = home.create("fail", "--model", "m-1")
    home.start()
    home.wait_status(key, "blocked")
    path = task_json(home, key)
    before = path.stat()
    subprocess.run(["sed", "-i", "s/m-1/m-2/g", str(path)], check=True)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as `touch -r` and careful editors do
    home.fleet.ok("retry", key)
    home.wait_status(key, "blocked")
    home.fleet.ok("retry", key)
    home.wait_status(key, "blocked")
    assert [run["model"] for run in home.runs(key)] == ["m-1", "m-2", "m-2"]
    assert "model:       m-2\n" in home.fleet.ok("show", key)


def test_sed_on_a_whole_line_applies_to_every_later_run(home: Supervised, other: Path) -> None:
    home.set("limits.retry_limit=1")
    key = home.create("fail")
    home.start()
    home.wait_status(key, "blocked")
    subprocess.run(["sed", "-i", f's#"cwd": *"[^"]*"#"cwd": "{other}"#', str(task_json(home, key))], check=True)
    assert f"cwd:         {other}\n" in home.fleet.ok("show", key)
    for _ in range(2):
        home.fleet.ok("retry", key)
        home.wait_status(key, "blocked")
    assert [run["workspace"] for run in home.runs(key)][1:] == [str(other)] * 2


def test_last_change_wins_in_task_json_or_by_command(home: Supervised) -> None:
    key = home.create("ok")
    path = task_json(home, key)
    path.write_text('{"model": "m-1"}')
    home.fleet.ok("bd", "update", key, "--model", "m-2")
    assert "model:       m-2\n" in home.fleet.ok("show", key)
    path.write_text('{"model": "m-3", "note": "mine"}')
    assert json.loads(home.fleet.ok("show", key, "--json"))[0]["metadata"]["fleet.model"] == "m-3"
    assert json.loads(path.read_text())["note"] == "mine"


@pytest.mark.parametrize("kind", ["file", "folder", "pipe", "read-only"])
def test_agent_cannot_change_its_own_task_through_task_json(home: Supervised, kind: str) -> None:
    home.set("limits.continue_limit=1")
    key = home.create(f"edit_task_json kind={kind}")
    home.start()
    home.wait_status(key, "blocked")
    assert [(run["workspace"], run["coder"], run["model"]) for run in home.runs(key)] == [
        (str(home.fleet.cwd), CODER, "")
    ] * 2
    assert json.loads(task_json(home, key).read_text())["status"] == "blocked"
    assert "evil" not in home.fleet.ok("show", key)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("pipe", "not a plain file"),
        ("link", "Too many levels of symbolic links"),
        ("[" * 2_000_000, "it is larger than 1 MiB"),
        ('{"model": "\\ud800"}', "'utf-8' codec"),
        ('{"cwd": 5}', "its cwd is not text"),
        ('{"cwd": "/no/such/place"}', "its cwd /no/such/place is not a directory"),
        ('{"coder": "nobody"}', "unknown coder 'nobody'"),
        ("{", "Expecting"),
    ],
)
def test_unusable_task_json_stops_nothing_and_is_shown(home: Supervised, text: str, why: str) -> None:
    home.set("limits.retry_limit=1")
    key = home.create("fail")
    path = task_json(home, key)
    if text == "pipe":
        os.mkfifo(path)
    elif text == "link":
        path.symlink_to("/dev/zero")
    else:
        path.write_text(text)
    shown = home.fleet.ok("show", key)
    assert f"task.json:   not used: {why}" in shown
    assert key in home.fleet.ok("ready")
    home.start()
    home.wait_status(key, "blocked")
    assert [run["workspace"] for run in home.runs(key)] == [str(home.fleet.cwd)]
