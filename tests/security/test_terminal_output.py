"""Text of agents never reaches a terminal raw: no command prints control characters or marks that reverse text."""

import json
import re
from pathlib import Path

import pytest

from builders import a_comment, a_task
from fleet.core.event import Event, Kind
from fleet.core.jsontext import encode
from fleet.core.task import Verdict
from fleet.supervisor.task_folder import TaskFolder
from live_runs import Records, records
from repositories import make_repository

__all__ = ["records"]

HOSTILE = "a\x1b]0;owned\x07\x1b[2J\x9b31m\x9d0;x\x9c\x7f\u202egnp\u2066\u200f\u2028error: none\r\x85b\U000e0041c"
#: All characters that must not be printed, except line ends.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
COMMANDS = """
list; list --json; list --grouped; tasks; tasks --json; task ID; task ID --json; task ID log; show ID; show ID --json
ready; ready --json; runs ID; runs ID --json; logs ID; receipt ID; receipt ID --json; questions; questions --json
stats; conflicts; hosts; hosts --json; log; doctor; doctor --json; accounts; queue; diff ID; pr ID --dry-run
merge ID; pick ID; logs BRANCH; show BRANCH; task BRANCH; show UNKNOWN; logs UNKNOWN
wait UNKNOWN; kill UNKNOWN; retry UNKNOWN
config get BRANCH; config set coder=BRANCH; bd create x --coder BRANCH; workflow list
workflow check BRANCH; trust --show; trust --show --json; hosts drain BRANCH; gc --dry-run; list --repair
bd list; bd list --json; bd show ID; bd show ID --json; bd ready; bd blocked; bd comments ID; bd comments ID --json
bd search a; bd export; bd show BRANCH; bd dep tree ID; bd stats; bd label list ID; bd update BRANCH --priority 1
bd dep add ID BRANCH; bd children ID; bd prime
"""


def plant(records: Records) -> str:
    """Put the hostile text everywhere that an agent could have left it. Return the task's id."""
    task = a_task(
        title=HOSTILE,
        description=f"{HOSTILE}\nmore",
        notes=HOSTILE,
        created_by=HOSTILE,
        labels=(HOSTILE,),
        metadata={HOSTILE: HOSTILE},
        branch=HOSTILE,
        repo=str(records.fleet.cwd),
        cwd=str(records.fleet.cwd),
    )
    records.store.tasks.add(task)
    records.store.comments.add(a_comment(task, author=HOSTILE, text=HOSTILE))
    claim, run = records.begin(task.id, model=HOSTILE, session=HOSTILE)
    folder = TaskFolder(records.home, task.id)
    folder.make()
    kinds = (Kind.TEXT, Kind.TOOL_USE, Kind.RESULT)
    folder.append_events([Event(kind=kind, text=HOSTILE, tool=HOSTILE) for kind in kinds], records.store.now())
    records.end(claim, run, "failed", Verdict(status="blocked", reason=HOSTILE), reason=HOSTILE)
    records.ask(task.id, f"{HOSTILE}\nmore", key=f"{task.id}/q1")
    logging = records.fleet.home / "logging"
    logging.mkdir(exist_ok=True)
    (logging / "fleet-2999-01-01.jsonl").write_text(f"{HOSTILE}\n{encode({'text': HOSTILE})}\n")
    (records.fleet.cwd / ".fleet").mkdir(exist_ok=True)
    (records.fleet.cwd / ".fleet" / "config.toml").write_text(f"[verify]\ncommand = {json.dumps(HOSTILE)}\n")
    return task.id


def test_no_command_prints_text_of_agents_raw(records: Records) -> None:
    records.fleet.cwd = make_repository(records.fleet.cwd.parent / "repo")
    task = plant(records)
    names = {"ID": task, "BRANCH": HOSTILE, "UNKNOWN": f"x{HOSTILE}"}
    raw, shown = [], 0
    for line in re.split(r"[;\n]", COMMANDS.strip()):
        done = records.fleet(*(names.get(word, word) for word in line.split()))
        found = RAW.search(done.out + done.err)
        if found:
            text = (done.out + done.err)[max(0, found.start() - 60) : found.end() + 20]
            raw.append(f"{line}: {text!r}")
        if "Traceback" in done.err or "bug in fleet" in done.err:
            raw.append(f"{line}: {done.err}")
        shown += "owned" in done.out + done.err
        if "--json" in line and done.code == 0:
            json.loads(done.out)
    assert not raw, "\n".join(raw)
    assert shown > 20, "the text is where these commands look"


def test_every_command_writes_json_through_the_printable_encoder() -> None:
    faces = (Path(__file__).parents[2] / "src" / "fleet" / "cli").rglob("*.py")
    raw = re.compile(r"(echo|say|write)\((encode|json\.dumps)\(")
    assert not [str(path) for path in faces if raw.search(path.read_text("utf-8"))]


@pytest.mark.parametrize("text", [HOSTILE, "é🚀 plain", "\u200d\u0301"])
def test_json_reads_back_unchanged(records: Records, text: str) -> None:
    task = a_task(title=text)
    records.store.tasks.add(task)
    (shown,) = json.loads(records.fleet.ok("bd", "show", task.id, "--json"))
    assert shown["title"] == text
