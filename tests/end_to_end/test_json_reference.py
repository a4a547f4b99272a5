"""Check of docs/reference/json.md against the keys that commands print."""

import json
import re
from pathlib import Path

from repositories import make_repository
from supervised import Supervised, home, wait_for

__all__ = ["home"]

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text("utf-8")
#: Commands to run for each section with a table of keys, in an order that works.
CALLS = {
    "fleet create": "create two --headless -p x",
    "fleet status": "status",
    "fleet list": "list --all",
    "fleet tasks": "tasks",
    "fleet runs": "runs one",
    "fleet questions": "questions",
    "fleet merge": "merge one --dry-run",
    "fleet pick": "pick one two --verify true",
    "fleet workflow status": "workflow list",
    "fleet receipt": "receipt one",
    "fleet prompt": "prompt long x --wait 0",
    "fleet kill": "kill long --yes",
}
FLOW = '[[stages]]\nname = "write"\ncoder = "demo"\nprompt = "x"\n'


def keys_on_the_page(section: str) -> set[str]:
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


def test_every_table_of_keys_has_a_call() -> None:
    sections = re.findall(r"^## (fleet .*)$", PAGE, re.MULTILINE)
    assert sorted(sections) == sorted(CALLS)


def test_commands_print_the_keys_on_the_page(home: Supervised) -> None:
    home.fleet.cwd = make_repository(home.fleet.cwd.parent / "repo")
    home.set("coder=demo")
    home.start()
    flow = home.fleet.cwd / "flow.toml"
    flow.write_text(FLOW, "utf-8")
    home.fleet.ok("create", "one", "--headless", "-p", "x")
    home.fleet.ok("bd", "create", "ask", "--description", 'demo: ask="Which?"')
    home.fleet.ok("workflow", "run", str(flow))
    home.fleet.ok("wait", "one", "--timeout", "60")
    home.fleet.ok("create", "long", "--headless", "-p", "x\ndemo: silent=600")
    wait_for(lambda: asks(home), "a question", home.describe)
    wrong = []
    for section, words in CALLS.items():
        done = home.fleet(*words.split(), "--json")
        assert done.out, f"{words}: {done.err}"
        printed = json.loads(done.out)
        first = printed[0] if isinstance(printed, list) else printed
        if first.keys() != keys_on_the_page(section):
            wrong.append(f"{section}: {sorted(first.keys() ^ keys_on_the_page(section))}")
        if section == "fleet create":
            home.fleet.ok("wait", "two", "--timeout", "60")
    assert not wrong, "\n".join(wrong)


def asks(home: Supervised) -> bool:
    return bool(json.loads(home.fleet.ok("questions", "--json")))
