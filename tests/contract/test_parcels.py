"""Artifacts for the next run travel with their branch: packed on one host and unpacked on another."""

import os
from pathlib import Path

import pytest

from contract.test_mirrors import Site
from fleet.core.redaction import Redactor
from fleet.git import mirror
from fleet.git.remote import Remote
from fleet.git.send import send_receipts
from fleet.git.view import View
from fleet.home import Home
from fleet.hosts.parcel import MOST_FILES, fetch_parcel, not_taken, packed, parcel, unpack
from fleet.supervisor.task_folder import TaskFolder


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def a_folder(home: Home, *, secrets: tuple[str, ...] = ()) -> TaskFolder:
    home.make()
    made = TaskFolder(home, "fleet-1", redactor=Redactor(secrets))
    made.make()
    return made


def put(view: View, remote: Remote, task_id: str, number: int, files: dict[str, bytes]) -> None:
    assert not_taken(send_receipts(view, remote, {}, parcel(view, task_id, number, files)).refused) == {}


def test_artifacts_arrive_unchanged_except_for_secrets(site: Site) -> None:
    first = a_folder(site.home, secrets=("hunter2hunter2",))
    artifacts = Path(first.artifacts)
    (artifacts / "PLAN_AND_STATUS.md").write_text("half done; the word is hunter2hunter2\n")
    (artifacts / "shots" / "deep").mkdir(parents=True)
    (artifacts / "shots" / "deep" / "a b.png").write_bytes(bytes(range(256)))
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    view = View(site.home, made)
    put(view, site.remote, "fleet-1", 1, {"PLAN_AND_STATUS.md": b"old\n", "gone.md": b"old\n"})
    put(view, site.remote, "fleet-1", 2, packed(first))
    put(view, site.remote, "fleet-1", 2, packed(first))  # a second time is harmless
    put(view, site.remote, "fleet-1", 2, {"another.md": b"which comes too late\n"})
    put(view, site.remote, "fleet-1", 3, {})
    other = Home(str(site.folder / "third"))
    second = a_folder(other)
    there = mirror.fetch_mirror(other, site.url, site.base)
    unpack(second, fetch_parcel(other, View(other, there), site.remote, "fleet-1"))
    arrived = Path(second.artifacts)
    assert (arrived / "PLAN_AND_STATUS.md").read_text() == "half done; the word is [redacted]\n"
    assert (arrived / "shots" / "deep" / "a b.png").read_bytes() == bytes(range(256))
    assert not (arrived / "gone.md").exists()
    assert fetch_parcel(other, View(other, there), site.remote, "fleet-2") == {}


def test_links_pipes_and_oversized_files_are_not_packed(site: Site, tmp_path: Path) -> None:
    folder = a_folder(site.home)
    artifacts = Path(folder.artifacts)
    (tmp_path / "secret").write_text("secret")
    (artifacts / "link.md").symlink_to(tmp_path / "secret")
    (artifacts / "folder").symlink_to(tmp_path)
    os.mkfifo(artifacts / "pipe.md")
    (artifacts / "large.bin").write_bytes(b"x" * (2 << 20))
    (artifacts / "kept.md").write_text("kept")
    assert packed(folder) == {"kept.md": b"kept"}
    for number in range(MOST_FILES + 50):
        (artifacts / f"{number}.md").write_text("x")
    assert len(packed(folder)) <= MOST_FILES


def test_unpacking_writes_only_into_the_artifacts_folder(site: Site, tmp_path: Path) -> None:
    folder = a_folder(site.home)
    artifacts = Path(folder.artifacts)
    (tmp_path / "outside").mkdir()
    (artifacts / "out").symlink_to(tmp_path / "outside")
    unpack(folder, {"../up.md": b"x", "/abs.md": b"x", "a/../b.md": b"x", "": b"x", "ok.md": b"ok"})
    assert sorted(path.name for path in artifacts.iterdir()) == ["ok.md", "out"]
    with pytest.raises(OSError, match=r"directory|link"):
        unpack(folder, {"out/through.md": b"x"})
    assert list((tmp_path / "outside").iterdir()) == []
