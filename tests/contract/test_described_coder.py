"""Custom coders in both forms of docs/howto/add-a-coder.md, started as a program and read as a stream."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builders import a_task
from fleet.coders import known, load
from fleet.coders.base import Coder, Order
from fleet.coders.command import FIELDS
from fleet.coders.prompt import FIELDS as PROMPT_FIELDS
from fleet.core.errors import BadInput, FleetError
from fleet.core.event import Event, Kind, Usage
from fleet.home import Home
from fleet.settings import Settings, list_described_coders
from fleet.settings import load as load_settings

PAGE = (Path(__file__).parent.parent.parent / "docs" / "howto" / "add-a-coder.md").read_text("utf-8")
PROMPT = "paint it; rm -rf $HOME `id` 'x' \"y\" ü"


def block(language: str, number: int = 0) -> str:
    return str(re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[number])


class Bench:
    """A folder with the documented program and settings."""

    def __init__(self, base: Path) -> None:
        self.home = Home(str(base / "home"))
        self.home.make()
        self.bin, self.work, self.folder = base / "bin", base / "work", base / "run"
        for folder in (self.bin, self.work, self.folder):
            folder.mkdir()

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text, "utf-8")
        path.chmod(0o700)

    def settings(self, text: str) -> Settings:
        Path(self.home.settings).write_text(text, "utf-8")
        return load_settings(self.home, env={})

    def order(self, session: str = "", model: str | None = "big", prompt: str = PROMPT) -> Order:
        return Order(task=a_task(), prompt=prompt, model=model, session=session, folder=str(self.folder))

    def run(self, coder: Coder, order: Order) -> list[Event]:
        """Start the coder's command as a launcher does. Return the events of its output."""
        command = coder.command(order)
        for name, text in command.files.items():
            (self.folder / name).write_text(text, "utf-8")
        env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "LANG": "C.UTF-8"} | command.env
        done = subprocess.run(
            command.argv, input=command.stdin.encode(), env=env, cwd=self.work, capture_output=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        return [event for line in done.stdout.decode().splitlines() for event in coder.parse(line)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.program("mycli", block("sh"))
    return made


@pytest.fixture(params=["settings", "class"])
def coder(request: pytest.FixtureRequest, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coder:
    """Return the documented coder, described in settings or written in Python."""
    if request.param == "settings":
        return load("mycli", bench.settings(block("toml")))
    monkeypatch.syspath_prepend(tmp_path / "modules")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "mycoder.py").write_text(block("python"), "utf-8")
    monkeypatch.delitem(sys.modules, "mycoder", raising=False)
    return load("mycoder:MyCoder")


def test_documented_coder_runs_and_reports_its_work(bench: Bench, coder: Coder) -> None:
    events = bench.run(coder, bench.order())
    assert [event.kind for event in events] == [
        Kind.SESSION_STARTED,
        Kind.TOOL_USE,
        Kind.TEXT,
        Kind.USAGE,
        Kind.RESULT,
    ]
    assert events[0].session.startswith("s-")
    assert (events[1].tool, events[2].text) == ("write", "I wrote mycli.txt.")
    assert (events[3].usage, events[3].cost_added) == (Usage(input=1200, output=80), 0.004)
    assert events[4].ok is True
    assert (bench.work / "mycli.txt").read_text() == f"I was told: {PROMPT}\n"
    assert coder.window("big") == 128_000 and coder.tells_result and coder.resumes


def test_documented_coder_resumes_a_session(bench: Bench, coder: Coder) -> None:
    assert bench.run(coder, bench.order(session="s-77"))[0].session == "s-77"
    assert bench.run(coder, bench.order(session="s-77", model=None))[0].session == "s-77"


def test_documented_coder_keeps_the_contract_of_all_coders(bench: Bench, coder: Coder) -> None:
    command = coder.command(bench.order(model="--help"))
    assert command.stdin == PROMPT and PROMPT not in " ".join(command.argv)
    assert "--help" not in command.argv
    for text in ("", "text", "{}", "[]", "null", "\0", "[" * 100_000, '{"type": {}}', '{"type": "end", "usage": 5}'):
        assert list(coder.parse(text)) == list(coder.parse(text))


def test_documented_plain_coder_reads_its_prompt_from_a_file_and_reports_limits(bench: Bench) -> None:
    bench.program("plain-cli", '#!/bin/sh\necho "prompt: $(cat "$2")"\necho "HTTP 429 Too Many Requests"\n')
    coder = load("plain", bench.settings(block("toml", 1)))
    said, limit = bench.run(coder, bench.order())
    assert said == Event(kind=Kind.TEXT, text=f"prompt: {PROMPT}")
    assert limit.limit and (limit.limit.kind, limit.limit.text) == ("rate", "HTTP 429 Too Many Requests")
    assert not coder.tells_result
    told = coder.explain(1, "error: please log in first\n")
    assert told and told.limit and told.limit.kind == "auth"


def test_prompt_argument_arrives_as_one_word(bench: Bench) -> None:
    bench.program("argcli", '#!/bin/sh\necho "$# words, the last: $2"\n')
    coder = load("argcli", bench.settings('[coders.argcli]\nargv = ["argcli", "-p"]\nprompt = "argument"\n'))
    assert [event.text for event in bench.run(coder, bench.order())] == [f"2 words, the last: {PROMPT}"]


def test_settings_decide_which_coder_a_name_means(bench: Bench) -> None:
    held = bench.settings('[coders.mine]\nargv = ["mycli"]\n[coders.demo]\nmodel = "x"\n[coders.half]\nmodel = "x"\n')
    assert list_described_coders(held) == ("mine",)
    assert load("mine", held).program == "mycli"
    assert load("demo", held).program == "", "settings alone describe nothing"
    assert known("mine", described=held.coders) == "mine"
    with pytest.raises(BadInput, match="unknown coder 'mine'"):
        load("mine")
    with pytest.raises(FleetError, match="coder 'half' has settings but no argv"):
        load("half", held)
    assert load("demo", bench.settings('[coders.demo]\nargv = ["mycli"]\n')).program == "mycli"


def test_documentation_names_every_field() -> None:
    for field in (*FIELDS, *PROMPT_FIELDS):
        assert f"| `{{{field}}}` |" in PAGE
