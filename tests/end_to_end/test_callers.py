"""What an agent may do on the command line: change its own task and the tasks it created, but no command for people."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from builders import a_task, an_edge
from fleet.cli.bd.verbs import VERBS, WRITES
from fleet.core.dependency import PARENT_CHILD
from fleet.core.filter import Filter, Lane
from fleet.core.task import Caller, Status
from live_runs import OWNER, TTL, Records, records
from program import Result

__all__ = ["records"]


class Agent:
    """A live run with its token and its own task, a task that it created, and tasks of others."""

    own, made, other = "fleet-own", "fleet-made", "fleet-other"

    def __init__(self, records: Records) -> None:
        self.records, store = records, records.store
        store.tasks.add(a_task(id=self.own))
        self.claim, self.run = records.begin(self.own)
        caller = Caller(task_id=self.own, run_id=self.run.id, epoch=self.claim.epoch)
        self.token = store.tokens.issue(self.claim, caller)
        with store.atomic():
            store.tasks.add(a_task(id=self.made, made_by=self.own))
            store.tasks.add(a_task(id=self.other, labels=("theirs",)))
            store.tasks.add(a_task(id="fleet-closed", status="closed"))
            store.tasks.add(a_task(id="fleet-child"))
            store.tasks.add(a_task(id="fleet-related"))
            store.tasks.add(a_task(id="fleet-off", status="deferred", defer_until=store.now() + TTL))
            store.tasks.add(a_task(id="fleet-held"))
            store.claims.take("fleet-held", "ada")
            store.edges.add(an_edge("fleet-child", self.other, PARENT_CHILD))
            store.edges.add(an_edge(self.other, "fleet-closed"))
            store.edges.add(an_edge(self.other, "fleet-related", "relates-to"))
            store.config.set("custom.key", "theirs")

    def __call__(self, *words: str, stdin: str = "") -> Result:
        """Run `bd` as the agent does."""
        return self.fleet("bd", *words, stdin=stdin)

    def ok(self, *words: str, stdin: str = "") -> str:
        result = self(*words, stdin=stdin)
        assert result.code == 0, result
        return result.out

    def fleet(self, *words: str, stdin: str = "") -> Result:
        return self.records.fleet(*words, stdin=stdin, FLEET_RUN_TOKEN=self.token, BEADS_ACTOR=self.run.id)

    def state(self) -> tuple[Any, ...]:
        """Return everything that an agent could have changed."""
        store = self.records.store
        return store.tasks.find(Filter(), sort="id"), store.edges.find(), store.config.all()


@pytest.fixture
def agent(records: Records) -> Iterator[Agent]:
    yield Agent(records)


class Try(NamedTuple):
    """A command line and its standard input."""

    words: str
    stdin: str = ""


#: Attempts of every writing verb on a task of another actor.
REFUSED = {
    "create": [Try("create new --deps blocks:fleet-other")],
    "update": [
        Try("update fleet-other --title mine"),
        Try("update fleet-other --claim"),
        Try("update fleet-other --parent fleet-own"),
        Try("update fleet-other --status closed --force"),
        Try("update fleet-other --assignee me --force"),
        Try("update fleet-other --set-metadata fleet.made_by=fleet-own"),
    ],
    "close": [Try("close fleet-other"), Try("close fleet-other --force")],
    "done": [Try("done fleet-other because")],
    "reopen": [Try("reopen fleet-closed")],
    "delete": [
        Try("delete fleet-other --force"),
        Try("delete fleet-other --force --cascade"),
        Try("delete fleet-own --force"),
    ],
    "dep": [Try("dep fleet-own --blocks fleet-other")],
    "dep add": [
        Try("dep add fleet-other fleet-own"),
        Try("dep add --file -", '{"from": "fleet-other", "to": "fleet-own"}\n'),
    ],
    "dep remove": [Try("dep remove fleet-other fleet-closed")],
    "dep relate": [Try("dep relate fleet-own fleet-other")],
    "dep unrelate": [Try("dep unrelate fleet-other fleet-related")],
    "label add": [Try("label add fleet-other mine"), Try("label add fleet-own fleet-other mine")],
    "label remove": [Try("label remove fleet-other theirs")],
    "label propagate": [Try("label propagate fleet-other mine")],
    "tag": [Try("tag fleet-other mine")],
    "import": [Try("import -", '{"id": "fleet-other", "title": "mine", "updated_at": "2099-01-01T00:00:00Z"}\n')],
    "batch": [
        Try("batch", "create task 2 new\nclose fleet-other\n"),
        Try("batch", "update fleet-other title=mine\n"),
        Try("batch", "dep add fleet-other fleet-own\n"),
        Try("batch", "dep remove fleet-other fleet-closed\n"),
    ],
    "config set": [Try("config set custom.key value")],
    "config unset": [Try("config unset custom.key")],
    "init": [Try("init --prefix mine")],
    "assign": [Try("assign fleet-other me")],
    "priority": [Try("priority fleet-other 0")],
    "note": [Try("note fleet-other mine")],
    "defer": [Try("defer fleet-other --until tomorrow")],
    "undefer": [Try("undefer fleet-off")],
    "unclaim": [Try("unclaim fleet-held --force"), Try("unclaim fleet-own --force")],
    "ready": [Try("ready --claim --label theirs")],
}
#: Verbs that an agent may use anywhere: comments, and new tasks of its own.
ALLOWED = {"q", "comment", "comments add"}


def test_every_writing_verb_is_attempted() -> None:
    writing = {name for name, (_, _, writes, _, _) in VERBS.items() if writes == WRITES}
    assert set(REFUSED) - {"ready"} | ALLOWED == writing


@pytest.mark.parametrize("verb", REFUSED)
def test_writing_verb_is_refused_when_the_task_belongs_to_another(agent: Agent, verb: str) -> None:
    before = agent.state()
    for attempt in REFUSED[verb]:
        done = agent(*attempt.words.split(), stdin=attempt.stdin)
        assert agent.state() == before, attempt
        assert done.code == 1 and "an agent may not" in done.err, (attempt, done)


def test_refusal_names_the_alternative_in_text_and_json(agent: Agent) -> None:
    done = agent("label", "add", agent.other, "mine", "--json")
    told = json.loads(done.out)
    assert done.code == 1 and f"an agent may not change {agent.other}" in told["error"]
    assert f"`bd comment {agent.other} TEXT`" in told["hint"] and told["hint"] in done.err


MINE = [
    *("create another --parent fleet-other", "create another --deps discovered-from:fleet-other", "q another"),
    *("update fleet-made --claim", "unclaim fleet-made", "update fleet-made --title changed", "note fleet-made well"),
    *("label add fleet-made x", "priority fleet-made 0", "assign fleet-made me", "defer fleet-made --until tomorrow"),
    *("undefer fleet-made", "dep add fleet-made fleet-other", "dep remove fleet-made fleet-other"),
    *("dep add fleet-own fleet-made", "close fleet-made --force", "reopen fleet-made", "delete fleet-made --force"),
    *("update fleet-own --append-notes well", "label add fleet-own x", "update fleet-own --status blocked"),
]


def test_agent_can_change_its_own_task_and_the_tasks_it_created(agent: Agent) -> None:
    for words in MINE:
        before = agent.state()
        agent.ok(*words.split())
        assert agent.state() != before, words


READING = [
    *(
        "show fleet-other",
        "list --all",
        "ready",
        "search other",
        "dep tree fleet-other",
        "dep list fleet-other",
        "comments fleet-other",
    ),
    *(
        "children fleet-other",
        "count",
        "status",
        "export",
        "label list fleet-other",
        "config list",
        "blocked",
        "delete fleet-child",
    ),
]


def test_agent_can_read_everything(agent: Agent) -> None:
    before = agent.state()
    for words in READING:
        agent.ok(*words.split())
    assert agent.state() == before


def test_agent_comments_on_any_task_under_its_own_name(agent: Agent) -> None:
    made = json.loads(agent.ok("comment", agent.other, "mind the gap", "--author", "the boss", "--json"))
    assert made["author"] == agent.run.id
    agent.ok("comments", "add", agent.other, "and the other gap")
    assert [each.author for each in agent.records.store.comments.find([agent.other])] == [agent.run.id] * 2


FOR_PEOPLE = [
    *("pause", "resume", "kill fleet-other", "retry fleet-closed", "answer fleet-other yes", "gc", "gc --dry-run"),
    *("config set max_concurrent=9", "config edit", "init --permissions skip", "init --force"),
    *("run stop", "run start", "run restart", "run foreground", "run"),
]


def test_command_for_people_is_refused_when_an_agent_calls(agent: Agent) -> None:
    settings = agent.records.fleet.home / "runtime.toml"
    before = (agent.state(), settings.read_bytes())
    for words in FOR_PEOPLE:
        done = agent.fleet(*words.split())
        assert done.code == 1 and "an agent may not" in done.err, (words, done)
        assert (agent.state(), settings.read_bytes()) == before, words


def test_commands_are_allowed_when_no_token_is_passed(agent: Agent) -> None:
    fleet, other = agent.records.fleet, agent.other
    fleet.ok("bd", "update", other, "--title", "changed")
    fleet.ok("bd", "label", "add", agent.made, "x")
    fleet.ok("bd", "config", "set", "custom.key", "value")
    fleet.ok("pause")
    fleet.ok("resume")
    fleet.ok("config", "set", "max_concurrent=9")


def test_agent_is_refused_when_its_run_has_ended(agent: Agent) -> None:
    """Late writes are refused, also `bd close` of a task that another run works on now."""
    agent.records.store.claims.release(agent.claim)
    before = agent.state()
    for words in (
        f"close {agent.own}",
        f"update {agent.own} --title x",
        f"update {agent.other} --title x",
        "create new",
    ):
        done = agent(*words.split())
        assert done.code == 1 and "an agent may not" in done.err, (words, done)
    assert agent.fleet("pause").code == 1
    assert agent.state() == before
    assert agent.ok("show", agent.own, "--json")


def test_caller_is_refused_when_it_has_the_run_id_without_the_token(agent: Agent) -> None:
    """Such a caller comes from a coder that passes the run id on and removes the token from the environment."""
    before = agent.state()
    for words in ("bd close --force fleet-own", "bd create more", "kill --yes fleet-other", "pause"):
        result = agent.records.fleet(*words.split(), FLEET_RUN_ID=agent.run.id)
        assert result.code != 0 and "an agent" in result.err and "may not" in result.err, result
    assert (
        "keep FLEET_RUN_TOKEN in the environment" in agent.records.fleet("bd", "q", "x", FLEET_RUN_ID=agent.run.id).err
    )
    assert agent.state() == before


def test_update_to_closed_by_its_agent_is_only_a_hand_in(agent: Agent) -> None:
    (row,) = json.loads(agent.ok("update", agent.own, "--status", "closed", "--title", "changed", "--json"))
    assert (row["status"], row["title"]) == ("closed", "changed")
    task = agent.records.store.tasks.get(agent.own)
    assert (task.status, task.title, task.handed_in_at is not None) == (Status.IN_PROGRESS, "changed", True)


def test_hand_in_counts_when_claiming_the_next_task_is_refused(agent: Agent) -> None:
    agent.ok("close", agent.made)
    done = agent("close", agent.own, "--claim-next", "--json")
    assert done.code == 0 and "an agent may not claim" in done.err
    assert agent.records.store.tasks.get(agent.own).handed_in_at is not None


def test_agent_cannot_set_its_own_verdict(agent: Agent) -> None:
    lies = ("fleet.finding=verified", "fleet.made_by=", "fleet.verify=true", "fleet.limits={}", "fleet.reason=done")
    before = agent.records.store.tasks.get(agent.own)
    agent.ok("update", agent.own, "--title", "changed", *(word for lie in lies for word in ("--set-metadata", lie)))
    after = agent.records.store.tasks.get(agent.own)
    assert after == before.replace(title="changed", updated_at=after.updated_at)


def test_agent_cannot_create_tasks_below_the_depth_limit(agent: Agent) -> None:
    records = agent.records
    for depth in (1, 2):
        key = str(json.loads(agent.ok("create", f"depth {depth}", "--json"))["id"])
        assert records.store.tasks.get(key).made_by == agent.own
        lane = Lane(room=1, where=Filter(ids=(key,)))
        (claim,) = records.store.claims.acquire(OWNER, [lane], room=1, ttl=TTL)
        agent.token = records.store.tokens.issue(claim, Caller(task_id=key, run_id=f"{key}/1", epoch=claim.epoch))
        agent.own = key
    plan = json.dumps({"nodes": [{"key": "a", "title": "deeper"}]})
    (records.fleet.cwd / "plan.json").write_text(plan)
    before = agent.state()
    ways = ["create deeper", "q deeper", f"create deeper --parent {agent.other}", "create --graph plan.json"]
    for words in [*(way.split() for way in ways), ["batch"], ["import", "-"]]:
        stdin = {"batch": "create task 2 deeper", "import": '{"title": "deeper"}\n'}.get(words[0], "")
        done = agent(*words, stdin=stdin)
        assert done.code == 1 and "its depth is 2, and the maximum is 2" in done.err, (words, done)
    assert agent.state() == before
