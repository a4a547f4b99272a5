"""Two hosts on one machine: each with a home, sharing one PostgreSQL, and a repository whose remote both can reach."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from postgres import server
from program import Process, Program
from repositories import commit, make_repository, run_git
from supervised import commands, environment, wait_for

PROJECT = '[setup]\ncommands = ["echo set up > set-up.txt"]\nteardown = ["echo down >> $HOME/torn-down"]\n'


class Site:
    """A person's repository with its bare remote, and hosts that share a queue."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = server().make_database()
        self.bare = folder / "server" / "project.git"
        self.top = make_repository(folder / "project")
        run_git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        run_git(self.top, "remote", "add", "origin", str(self.bare))
        run_git(self.top, "push", "--quiet", "origin", "main")
        self.hosts: list[Host] = []

    def host(self, name: str, *settings: str) -> "Host":
        made = Host(self, name, settings)
        self.hosts.append(made)
        return made

    def hide_checkout(self) -> None:
        """Hide the checkout, as on a machine that does not have it."""
        self.top.rename(self.folder / "project.hidden")

    def show_checkout(self) -> None:
        (self.folder / "project.hidden").rename(self.top)

    def refs(self) -> dict[str, str]:
        """Return the refs of the remote."""
        rows = run_git(self.bare, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ") for line in rows)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as link:
            return link.execute(sql.encode(), values).fetchall()

    def execute(self, sql: str, *values: Any) -> None:
        """Change the database as another host would."""
        with psycopg.connect(self.url) as link:
            link.execute(sql.encode(), values)

    def task(self, key: str) -> dict[str, Any]:
        names = ("status", "reason", "remote", "base", "repo", "requires", "failures", "branch", "finding")
        found = self.rows(f"select {', '.join(names)} from fleet.tasks where id = %s", key)
        return dict(zip(names, found[0], strict=True))

    def wait_status(self, key: str, *statuses: str) -> dict[str, Any]:
        wait_for(lambda: self.task(key)["status"] in statuses, f"{key} to be {statuses}", lambda: self.describe(key))
        return self.task(key)

    def describe(self, key: str) -> str:
        said = [(host.fleet.user / "supervisor.out") for host in self.hosts]
        return f"{self.task(key)}\n" + "\n".join(f.read_text(errors="replace")[-3000:] for f in said if f.exists())

    def stop(self) -> None:
        for host in self.hosts:
            host.stop()


class Host:
    """One home and its supervisor."""

    def __init__(self, site: Site, name: str, settings: tuple[str, ...]) -> None:
        base = site.folder / name
        base.mkdir()
        self.site, self.name, self.fleet = site, name, Program(base)
        self.fleet.env |= {"FLEET_QUEUE": site.url}
        usual = ("coder=demo", "supervisor.min_free_disk_mb=1", "supervisor.min_free_memory_mb=1", f"host.name={name}")
        told = dict(pair.split("=", 1) for pair in (*usual, "supervisor.claim_seconds=6", *settings))
        self.fleet.home.mkdir(mode=0o700)
        lines = [f"{key} = {value if value.isdigit() else json.dumps(value)}\n" for key, value in told.items()]
        (self.fleet.home / "runtime.toml").write_text("".join(lines))
        self.fleet.ok("init", "--permissions", "user")
        self.process: Process | None = None

    def start(self) -> None:
        with (self.fleet.user / "supervisor.out").open("ab") as log:
            self.process = self.fleet.start("run", stdout=log.fileno(), stderr=log.fileno())
        lock, mine = self.fleet.home / "supervisor.lock", f'"pid": {self.process.pid},'
        wait_for(lambda: lock.exists() and mine in lock.read_text(), f"{self.name} to start", self.said)

    def said(self) -> str:
        return (self.fleet.user / "supervisor.out").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        """Stop the supervisor and its agents."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None
        if self.fleet.home.exists():
            self.fleet("run", "stop")  # a supervisor that a command started

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def create(self, do: str, *argv: str) -> str:
        """Create a task with a worktree of the site's repository. Return its id."""
        words = ("bd", "create", "a task", "-d", f"demo: {do}", "--workspace", "worktree", "--json", *argv)
        return str(json.loads(self.fleet.ok(*words, cwd=self.site.top))["id"])


@contextmanager
def stopped_in_its_work(site: Site, host: Host, key: str) -> Iterator[None]:
    """Stop the agents of a host, once one has started on the task, for the duration of the block."""
    record = host.fleet.home / "tasks" / key / "events.jsonl"
    wait_for(lambda: record.exists() and "Step 1" in record.read_text(), "its first step", lambda: site.describe(key))
    agents = [pid for pid, words in commands() if b"fleet.coders.demo.agent" in words]
    agents = [pid for pid in agents if b"FLEET_HOME=" + bytes(host.fleet.home) in environment(pid)]
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert agents
        yield
    finally:
        for pid in agents:
            os.kill(pid, signal.SIGCONT)


__all__ = ["PROJECT", "Host", "Site", "commit", "stopped_in_its_work"]
