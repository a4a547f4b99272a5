"""Trust in a repository counts on one host only, because another host may have other content at the same path."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fleet.store.postgres.store import PostgresStore
from postgres import server
from program import Program
from repositories import commit, make_repository, run_git
from two_hosts import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


class Disk:
    """The content of one host at a path where other hosts have other content."""

    def __init__(self, path: Path, kept: Path) -> None:
        self.path, self.kept = path, kept

    def __enter__(self) -> Path:
        self.kept.rename(self.path)
        return self.path

    def __exit__(self, *_: object) -> None:
        self.path.rename(self.kept)


def standing(fleet: Program, cwd: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.ok("trust", "--show", "--json", cwd=cwd))
    return found


def test_two_checkouts_at_one_path_on_two_hosts_are_trusted_separately(site: Site) -> None:
    hosts = [site.host(name) for name in ("alpha", "beta")]
    disks = []
    for host in hosts:
        kept = make_repository(site.folder / f"{host.name}.disk")
        commit(kept, ".fleet/config.toml", '[setup]\ncommands = ["make things"]\n')
        run_git(kept, "config", "core.filemode", "false" if host.name == "beta" else "true")
        run_git(kept, "config", f"alias.{host.name}", "status")
        disks.append(Disk(site.folder / "work", kept))
    alpha, beta = hosts
    with disks[0] as path:
        alpha.fleet.ok("trust", cwd=path)
    with disks[1] as path:
        mine = standing(beta.fleet, path)
        assert ([each["trusted"] for each in mine["commands"]], mine["known"], mine["changed"]) == ([False], False, [])
        beta.fleet.ok("trust", cwd=path)
        words = ("create", "fix", "-p", "demo: steps=1", "--headless", "--no-wait", "--host", "elsewhere")
        assert "task" in beta.fleet.ok(*words, "--json", cwd=path)
    with disks[0] as path:
        mine = standing(alpha.fleet, path)
        assert ([each["trusted"] for each in mine["commands"]], mine["known"], mine["changed"]) == ([True], True, [])
        run_git(path, "config", "core.hooksPath", "elsewhere")  # the change is still detected
        assert standing(alpha.fleet, path)["changed"]
    with disks[1] as path:
        assert standing(beta.fleet, path)["changed"] == []


def test_trust_moves_with_the_queue_there_and_back(fleet: Program, tmp_path: Path) -> None:
    path = make_repository(tmp_path / "project")
    commit(path, ".fleet/config.toml", '[setup]\ncommands = ["make things"]\n')
    fleet.ok("init", "--home", "--permissions", "user")
    fleet.ok("trust", cwd=path)
    before = standing(fleet, path)
    assert before["known"] and before["commands"][0]["trusted"]
    url = server().make_database()
    fleet.ok("queue", "migrate", "sqlite", url)
    assert standing(fleet, path) == before
    stranger = Program(_folder(tmp_path / "stranger"))
    stranger.env["FLEET_QUEUE"] = url
    stranger.ok("init", "--permissions", "user")
    assert not standing(stranger, path)["known"]
    run_git(path, "config", "alias.own", "status")
    commit(path, ".fleet/config.toml", '[setup]\ncommands = ["make others"]\n')
    fleet.ok("trust", cwd=path)
    after = standing(fleet, path)
    assert after["changed"] == [] and after["commands"][0]["trusted"]
    fleet.ok("queue", "migrate", url, "sqlite")
    assert standing(fleet, path) == after


def test_trust_is_per_host_only_for_paths() -> None:
    url = server().make_database()
    here, there = (PostgresStore(url, make=True, mark=partial(str, mark)) for mark in ("aa", "bb"))
    for kind, key in (("project", "/r/.git"), ("project", "remote /r.git"), ("request", "t-1 origin")):
        here.trust.set(kind, key, "here", "ada")
        assert there.trust.get(kind, key) == (None if key.startswith("/") else "here")
        there.trust.set(kind, key, "there", "bob")
        assert here.trust.get(kind, key) == ("here" if key.startswith("/") else "there")
    here.close()
    there.close()


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
