"""One host: it registers, takes tasks that fit its labels, drains and resumes; waiting tasks name the missing host."""

import json
from typing import Any

from fleet.core.host import Host
from fleet.core.task import Caller
from live_runs import Records, records
from program import Program, fleet
from repositories import make_repository
from supervised import Supervised, home, wait_for

__all__ = ["fleet", "home", "records"]


def hosts(fleet: Program) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(fleet.ok("hosts", "--json"))
    return found


def remarks(home: Supervised) -> str:
    return home.fleet("tasks").err


def run(home: Supervised, *flags: str) -> None:
    """Start a supervisor with these flags, and wait until its host is listed."""
    with (home.fleet.user / "supervisor.out").open("ab") as log:
        home.process = home.fleet.start("run", *flags, stdout=log.fileno(), stderr=log.fileno())
    wait_for(lambda: [row for row in hosts(home.fleet) if row["state"] != "gone"], "the host", home.describe)


def test_task_waits_for_a_host_with_the_required_labels(home: Supervised) -> None:
    home.set("host.name=box")
    assert "no host has used" in home.fleet("hosts").err and hosts(home.fleet) == []
    home.start()
    wait_for(lambda: hosts(home.fleet), "its host", home.describe)
    labelled = home.create("ok", "--requires", "gpu,linux")
    pinned = home.create("ok", "--host", "elsewhere")
    mine = home.create("ok", "--host", "box")
    home.wait_status(mine, "closed")
    assert [home.task(key)["status"] for key in (labelled, pinned)] == ["open", "open"]
    told = remarks(home)
    assert "nothing starts: no host offers gpu, linux (1 task waits for it)\n" in told
    assert "nothing starts: no host is called elsewhere (1 task waits for it)\n" in told
    assert "requires:    gpu, linux\n" in home.fleet.ok("show", labelled)
    # Settings add labels while the supervisor runs; a command sends a task elsewhere.
    home.set("host.labels=linux,gpu,big")
    home.wait_status(labelled, "closed")
    home.fleet.ok("bd", "update", pinned, "--host", "box", "--requires", "big")
    home.wait_status(pinned, "closed")
    assert json.loads(home.task(pinned)["requires"]) == ["big", "host:box"]
    # `fanout` and similar commands report the same.
    flags = ("--headless", "--no-wait", "--json", "--requires", "tpu", "--requires", "linux", "--host", "box")
    made = home.fleet.ok("fanout", "2", "try", "-p", "do: ok", *flags, cwd=make_repository(home.fleet.user / "repo"))
    assert {home.task(row["task"])["requires"] for row in json.loads(made)} == {'["host:box", "linux", "tpu"]'}
    assert "no host offers tpu (2 tasks wait for it)" in remarks(home)


def test_drained_host_finishes_its_tasks_and_takes_no_more(home: Supervised) -> None:
    run(home, "--name", "box", "--labels", "gpu,linux", "--slots", "1")
    [row] = hosts(home.fleet)
    assert (row["name"], row["state"], row["slots"], row["agents"]) == ("box", "here", 1, 0)
    assert row["labels"] == ["gpu", "linux"] and row["this"]
    at_work = home.create(f"until file={home.fleet.user}/go")
    home.wait_started(1)
    assert home.fleet.ok("hosts", "drain", "box").startswith("box is draining, with 1 tasks to finish;")
    later = home.create("ok")
    refused = home.fleet("hosts", "forget", "box")
    assert (refused.code, refused.err.splitlines()[0]) == (1, f"error: host box still holds {at_work}")
    (home.fleet.user / "go").touch()
    home.wait_status(at_work, "closed")
    assert [row["state"] for row in hosts(home.fleet)] == ["drained"]
    assert "this host, box, is drained; run `fleet hosts undrain box` to let it take tasks" in remarks(home)
    assert home.task(later)["status"] == "open" and home.runs(later) == []
    assert "would register again at once" in home.fleet("hosts", "forget", "box").err
    assert home.fleet.ok("hosts", "undrain", "box") == "box may take tasks\n"
    home.wait_status(later, "closed")
    home.stop()
    [row] = hosts(home.fleet)  # the host reported its own end
    assert (row["state"], row["agents"]) == ("gone", 0)
    assert "last seen at" in home.fleet.ok("hosts")
    assert home.fleet.ok("hosts", "forget", "box") == "box is forgotten\n"
    assert hosts(home.fleet) == []


def test_host_flags_survive_a_restart_in_the_background(fleet: Program) -> None:
    fleet.ok("init", "--permissions", "user")
    fleet.ok("run", "--name", "box", "start", "--labels", "gpu", "--slots", "7")
    try:
        wait_for(lambda: hosts(fleet), "the host")
        fleet.ok("run", "restart", "--labels", "")
        wait_for(lambda: hosts(fleet)[0]["labels"] == [], "the host again")
        [row] = hosts(fleet)
        assert (row["name"], row["slots"], row["state"]) == ("box", 7, "here")
        assert "0 of 7 slots" in fleet.ok("run", "status")
    finally:
        fleet.ok("run", "stop")


def test_unknown_host_is_refused_with_the_known_names(records: Records) -> None:
    assert "run `fleet run` to register this machine" in records.fleet("hosts", "drain", "x").err
    for name in ("build1", "build2", "other"):
        records.store.hosts.keep(a_row(records, f"fleet@{name}-1", name))
    records.store.hosts.keep(a_row(records, "fleet@other-2", "other"))
    for verb in ("drain", "undrain", "forget"):
        done = records.fleet("hosts", verb, "biuld1")
        assert (done.code, done.out) == (2, "") and "no host 'biuld1'" in done.err
        assert "there are: build1" in done.err
    done = records.fleet("hosts", "drain", "other")
    assert done.code == 2 and "pass the id of one: fleet@other-1, fleet@other-2" in done.err
    assert "2 hosts are called other" in records.fleet("hosts").err
    records.fleet.ok("hosts", "drain", "fleet@other-2")
    assert {row["id"]: row["drained_at"] is not None for row in hosts(records.fleet)}["fleet@other-2"]


def test_draining_hosts_is_refused_when_an_agent_calls(records: Records) -> None:
    records.store.hosts.keep(a_row(records, "fleet@build1-1", "build1"))
    task = records.create("a task")
    claim, run = records.begin(task)
    token = records.store.tokens.issue(claim, Caller(task_id=task, run_id=run.id, epoch=claim.epoch))
    for verb in ("drain", "undrain", "forget"):
        done = records.fleet("hosts", verb, "build1", FLEET_RUN_TOKEN=token)
        assert done.code == 1 and f"an agent may not {verb} hosts" in done.err
    assert hosts(records.fleet)[0]["drained_at"] is None


def test_invalid_requirements_are_refused_before_anything_is_created(records: Records) -> None:
    for words in (
        ("bd", "create", "x", "--requires", "a b"),
        ("bd", "create", "x", "--host", "a:b"),
        ("bd", "create", "x", "--metadata", '{"fleet.requires": "gpu"}'),
        ("create", "fix", "-p", "do it", "--requires", "host:a"),
        ("run", "--labels", "a b"),
        ("run", "start", "--name", "a b"),
    ):
        done = records.fleet(*words)
        assert done.code == 1 and " host" in done.err, words
    assert json.loads(records.fleet.ok("bd", "list", "--json")) == []


def a_row(records: Records, key: str, name: str) -> Host:
    return Host(id=key, name=name, slots=1, seen_at=records.store.now())
