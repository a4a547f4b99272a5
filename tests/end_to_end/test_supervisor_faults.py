"""Faults around the supervisor: a locked database, few descriptors, a full disk, a rival that was thought dead."""

import json
import os
import resource
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from needs import require
from supervised import Supervised, home, wait_for

__all__ = ["home"]


@pytest.mark.parametrize("seconds", [4, pytest.param(30, marks=pytest.mark.soak)])
def test_a_database_locked_for_long_is_waited_for(home: Supervised, seconds: int) -> None:
    running = home.create("ok seconds=1")
    home.start()
    home.wait_started(1)
    with closing(sqlite3.connect(home.fleet.home / "fleet.db", isolation_level=None)) as rival:
        rival.execute("begin immediate")
        threading.Event().wait(seconds)
        rival.execute("rollback")
    home.wait_all([running, home.create("ok")], "closed")
    assert [run["ending"] for run in home.runs(running)] == ["finished"]


def test_few_descriptors_slow_it_down_and_lose_nothing(home: Supervised) -> None:
    home.set("max_concurrent=20", "limits.retry_limit=50")
    keys = [home.create("ok seconds=0.5") for _ in range(12)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        home.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    home.wait_all(keys, "closed", patience=120)


def test_a_full_disk_of_the_home_is_waited_out(home: Supervised, tmp_path: Path) -> None:
    require(os.geteuid() == 0, "mounting a small file system (needs root)")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], check=True)
    try:
        small = home
        small.fleet.home = place / "home"
        small.fleet.env["FLEET_HOME"] = str(small.fleet.home)
        small.__init__(small.fleet)  # type: ignore[misc]
        small.start()
        first = small.create("ok")
        small.wait_status(first, "closed")
        filler = place / "filler"
        with filler.open("wb") as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
            except OSError:
                pass
        time.sleep(3)
        assert small.process is not None and small.process.poll() is None
        filler.unlink()
        small.wait_status(small.create("ok"), "closed")
        small.stop()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_supervisor_stopped_past_its_claims_goes_on_with_what_is_still_its_own(home: Supervised) -> None:
    key = home.create("ok seconds=25")
    home.start()
    home.wait_started(1)
    assert home.process is not None
    home.process.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: home.task(key)["claim_expires_at"] < time.time() * 1e6, "the claim to expire", home.describe)
        assert len(home.agents()) > 0
        assert json.loads(home.fleet.ok("bd", "ready", "--json")) == []
    finally:
        home.process.send_signal(signal.SIGCONT)
    home.wait_status(key, "closed")
    assert [run["ending"] for run in home.runs(key)] == ["finished"]
