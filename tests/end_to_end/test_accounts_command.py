"""Several accounts of one coder: fleet continues with the next if one is limited, and `fleet accounts` shows all."""

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.core.task import Caller, Status, Verdict
from live_runs import Records, records
from stub_clis import with_stub_clis
from supervised import Supervised, home, wait_for

__all__ = ["home", "records"]

CODER = "workers.steered:ResumingCoder"
SECRET = "sk-very-secret-value-1234567890"


def accounts(home: Supervised, *names: str, more: str = "") -> None:
    """Configure these accounts in this order of use. Each passes its name to its agents."""
    home.set(f"coder={CODER}")
    with (home.fleet.home / "runtime.toml").open("a", encoding="utf-8") as file:
        for place, name in enumerate(names):
            file.write(f'\n[[accounts]]\nname = "{name}"\ncoder = "{CODER}"\norder = {place}\n{more}\n')
            file.write(f'env = {{ACCOUNT = "{name}", OPENAI_API_KEY = "{SECRET}"}}\n')


def told(home: Supervised | Records) -> dict[str, dict[str, Any]]:
    """Return the rows of `fleet accounts --json` by account name."""
    return {row["name"]: row for row in json.loads(home.fleet.ok("accounts", "--json"))}


def test_next_account_finishes_the_task_when_one_is_limited(home: Supervised) -> None:
    accounts(home, "first", "second")
    home.start()
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    task = home.create(f"limited account=first kind=plan at={ends.timestamp():.0f}")
    found = home.wait_status(task, "closed")
    assert (found["failures"], found["continues"]) == (0, 0)
    assert [(run["account"], run["ending"]) for run in home.runs(task)] == [
        ("first", "rate_limited"),
        ("second", "finished"),
    ]
    rows = told(home)
    assert (rows["first"]["state"], rows["first"]["until"]) == ("parked", ends.isoformat())
    assert "come back later" in rows["first"]["reason"] and rows["first"]["runs"] == 1
    second = rows["second"]
    assert (second["state"], second["runs"], second["tokens"], second["cost_usd"]) == ("ready", 1, 1280, 0.25)
    assert second["used_at"] and second["running"] == 0
    # New tasks avoid the limited account until a person unparks it.
    other = home.create("ok")
    home.wait_status(other, "closed")
    assert home.fleet.ok("accounts", "unpark", "first") == f"{CODER}/first: can be used again\n"
    assert (told(home)["first"]["state"], told(home)["first"]["strikes"]) == ("ready", 0)
    third = home.create("ok")
    home.wait_status(third, "closed")
    assert [home.runs(key)[0]["account"] for key in (other, third)] == ["second", "first"]


def test_parked_account_is_used_again_after_its_reset(home: Supervised) -> None:
    accounts(home, "first", "second")
    home.start()
    at = time.time() + 3600
    home.wait_status(home.create(f"limited account=first kind=plan at={at:.0f}"), "closed")
    assert told(home)["first"]["state"] == "parked"
    # Simulate that an hour has passed, because fleet parks a limited account for at least a minute.
    with closing(sqlite3.connect(home.fleet.home / "fleet.db", timeout=30)) as database, database:
        database.execute("update accounts set parked_until = ? where name = 'first'", [int(time.time() * 1e6)])
    assert told(home)["first"]["state"] == "ready"
    task = home.create("ok")
    home.wait_status(task, "closed")
    assert home.runs(task)[0]["account"] == "first"


def test_waiting_task_starts_when_its_account_is_unparked(home: Supervised) -> None:
    accounts(home, "only")
    home.set("supervisor.poll_seconds=60")  # unparking wakes the supervisor
    home.start()
    task = home.create(f"limited account=only kind=plan times=1 at={time.time() + 3600:.0f}")
    wait_for(lambda: told(home)["only"]["state"] == "parked", "the parking", home.describe)
    assert home.wait_status(task, "open")["failures"] == 0
    home.fleet.ok("accounts", "unpark", f"{CODER}/only")
    home.wait_status(task, "closed", patience=30)
    assert [run["ending"] for run in home.runs(task)] == ["rate_limited", "finished"]


def test_park_for_a_missing_login_ends_once_the_login_is_there(home: Supervised) -> None:
    with_stub_clis(home.fleet)
    del home.fleet.env["ANTHROPIC_API_KEY"]
    home.start()
    task = home.create("say hello", "--coder", "claude")
    wait_for(lambda: told(home).get("", {}).get("state") == "parked", "the parking", home.describe)
    needs = json.loads(home.fleet.ok("status", "--json"))["needs_you"]
    assert [(each["kind"], each["name"]) for each in needs] == [("login", "claude")]
    assert "claude is not logged in" in home.fleet("tasks").err
    folder = home.fleet.user / ".claude"
    folder.mkdir()
    (folder / ".credentials.json").write_text("{}")
    wait_for(lambda: len(home.runs(task)) > 1, "another run", home.describe, patience=30)
    assert told(home)[""]["state"] == "ready"


def test_rate_limit_slows_the_account_and_does_not_switch_to_the_next(home: Supervised) -> None:
    accounts(home, "first", "second")
    home.start()
    task = home.create("limited account=first kind=rate times=1")
    looks: list[dict[str, dict[str, Any]]] = []

    def is_slowed() -> bool:
        looks.append(told(home))
        return bool(looks[-1]["first"]["state"] == "slowed")

    wait_for(is_slowed, "the pause of 4 s", home.describe)
    assert looks[-1]["second"]["state"] == "waits" and "slowed down until" in looks[-1]["second"]["reason"]
    found = home.wait_status(task, "closed")
    assert found["failures"] == 0
    assert [(run["account"], run["ending"]) for run in home.runs(task)] == [
        ("first", "rate_limited"),
        ("first", "finished"),
    ]
    assert told(home)["second"]["runs"] == 0 and told(home)["first"]["strikes"] == 0


def test_account_is_full_when_it_has_as_many_agents_as_allowed(home: Supervised) -> None:
    accounts(home, "only", more="max_concurrent = 1")
    home.start()
    go = home.fleet.user / "go"
    task = home.create(f"wait until={go}")
    wait_for(lambda: told(home)["only"]["running"] == 1, "its agent", home.describe)
    row = told(home)["only"]
    assert (row["state"], row["max_concurrent"], row["runs"]) == ("full", 1, 1)
    wait_for(lambda: told(home)["only"]["tokens"] == 1280, "its tokens", home.describe)
    go.touch()
    home.wait_status(task, "closed")
    row = told(home)["only"]
    assert (row["state"], row["running"], row["runs"], row["tokens"]) == ("ready", 0, 1, 1280)


def test_accounts_and_coders_show_no_secret(home: Supervised) -> None:
    accounts(home, "first", more=f'secrets = {{ANTHROPIC_API_KEY = ["echo", "{SECRET}"]}}')
    for words in (("accounts",), ("accounts", "--json"), ("coders",), ("coders", "--json")):
        done = home.fleet(*words)
        assert done.code == 0 and SECRET not in done.out + done.err, words


def run_with(records: Records, account: str, **said: Any) -> None:
    task = records.create("a task")
    claim, run = records.begin(task, account=account, **said)
    records.end(claim, run, "finished", Verdict(status=Status.CLOSED, reason="done"))


def test_own_login_is_listed_as_an_account_once_it_was_used(records: Records) -> None:
    assert records.fleet("accounts").err == "the settings name no account, and no run has used an account yet\n"
    run_with(records, "", input_tokens=1000, output_tokens=500, cost_usd=1.5)
    run_with(records, "", input_tokens=500)
    [row] = json.loads(records.fleet.ok("accounts", "--json"))
    assert (row["coder"], row["name"], row["configured"]) == ("demo", "", False)
    assert (row["state"], row["runs"], row["tokens"], row["cost_usd"]) == ("ready", 2, 2000, 1.5)
    out = records.fleet.ok("accounts")
    assert "your own login" in out and "2.0k" in out and "$1.50" in out


def test_parked_login_is_shown_and_unparked_by_its_coder(records: Records) -> None:
    run_with(records, "")
    until = records.store.now().replace(microsecond=0) + timedelta(hours=1)
    records.store.accounts.park("demo", "", until=until, reason="plan limit: \x1b[2J used up")
    records.store.accounts.note_strikes("demo", "", strikes=4)
    out = records.fleet("accounts")
    assert "parked until" in out.out and "plan limit: \\x1b[2J used up" in out.out and "\x1b" not in out.out
    assert "fleet accounts unpark demo" in out.err
    assert records.fleet.ok("accounts", "unpark", "demo") == "demo: can be used again\n"
    [known] = records.store.accounts.all()
    assert (known.parked_until, known.parked_reason, known.strikes) == (None, "", 0)
    assert records.fleet.ok("accounts", "unpark", "demo") == "demo: was not parked\n"


def test_removed_account_and_own_login_are_unused_when_accounts_are_configured(records: Records) -> None:
    run_with(records, "")
    run_with(records, "gone")
    with (records.fleet.home / "runtime.toml").open("a", encoding="utf-8") as file:
        file.write('\n[[accounts]]\nname = "work"\ncoder = "demo"\n')
    rows = told(records)
    assert {name: row["state"] for name, row in rows.items()} == {"work": "ready", "": "unused", "gone": "unused"}
    assert list(rows) == ["work", "", "gone"], "what is in the settings comes first"
    assert "not in the settings" in rows["gone"]["reason"] and "has accounts" in rows[""]["reason"]


def test_unpark_is_refused_when_the_name_is_ambiguous(records: Records) -> None:
    for coder in ("demo", "claude"):
        for name in ("work", coder):
            records.store.accounts.park(
                coder, name, until=records.store.now() + timedelta(hours=1), reason="plan limit"
            )
    both = records.fleet("accounts", "unpark", "work")
    assert both.code == 2 and "claude/work, demo/work" in both.err
    unclear = records.fleet("accounts", "unpark", "demo")
    assert unclear.code == 2 and "is a coder and the name of an account" in unclear.err
    assert records.fleet("accounts", "unpark", "nope").code == 1
    assert all(each.parked_until for each in records.store.accounts.all())
    assert records.fleet.ok("accounts", "unpark", "demo/work") == "demo/work: can be used again\n"
    assert [f"{each.coder}/{each.name}" for each in records.store.accounts.all() if not each.parked_until] == [
        "demo/work"
    ]


def test_unpark_is_refused_when_an_agent_calls(records: Records) -> None:
    records.store.accounts.park("demo", "", until=records.store.now() + timedelta(hours=1), reason="plan limit")
    task = records.create("a task")
    claim, run = records.begin(task)
    token = records.store.tokens.issue(claim, Caller(task_id=task, run_id=run.id, epoch=claim.epoch))
    done = records.fleet("accounts", "unpark", "demo", FLEET_RUN_TOKEN=token)
    assert done.code == 1 and "an agent may not" in done.err
    assert records.store.accounts.all()[0].parked_until is not None
