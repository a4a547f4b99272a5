"""The demo agent in a terminal: the real program on a pseudo-terminal."""

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from fleet.coders import load
from fleet.coders.base import BUSY, READY, Order
from supervised import wait_for

PATIENCE = 60.0


class Terminal:
    """A running agent and its output so far."""

    def __init__(self, base: Path, prompt: str, **order: Any) -> None:
        folder = base / "runs" / "1"
        folder.mkdir(parents=True)
        command = load("demo").terminal(Order(task=a_task(), prompt=prompt, folder=str(folder), **order))
        assert command is not None
        self.env = {"FLEET_TASK_DIR": str(base), "FLEET_RUN_ID": "fleet-a/1"}
        self.closed = base / "closed"
        bd = base / "bin" / "bd"
        bd.parent.mkdir()
        bd.write_text(f'#!/bin/sh\necho "$@" >> "{self.closed}"\n')
        bd.chmod(0o755)
        env = os.environ | self.env | {"FLEET_ARTIFACT_DIR": str(base / "artifacts"), "FLEET_TASK_ID": "fleet-a"}
        env["PATH"] = f"{bd.parent}:{env['PATH']}"
        self._master, side = pty.openpty()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command.argv, stdin=side, stdout=side, stderr=side, cwd=base, env=env, start_new_session=True
        )
        os.close(side)
        self.out = ""
        if command.typed:
            self.wait_look(READY)
            self.write(b"\x1b[200~" + command.typed.encode() + b"\x1b[201~\r")
            self.wait("· working")

    def write(self, data: bytes) -> None:
        while data:
            self.read()
            data = data[os.write(self._master, data[:1024]) :]

    def read(self) -> str:
        with suppress(OSError):  # the agent has ended
            while select.select([self._master], [], [], 0)[0]:
                self.out += os.read(self._master, 65536).decode("utf-8", "replace")
        return self.out

    def look(self) -> str:
        lines = [line.rpartition("\x1b[K")[2] for line in self.read().split("\r\n")]
        return load("demo").look("\n".join(lines))

    def wait(self, text: str) -> None:
        wait_for(lambda: text in self.read(), repr(text), lambda: self.out[-2000:], PATIENCE)

    def wait_look(self, look: str) -> None:
        wait_for(lambda: self.look() == look, f"a screen that is {look}", lambda: self.out[-2000:], PATIENCE)

    def kinds(self) -> list[tuple[str, str]]:
        demo = load("demo")
        text = Path(demo.transcript("", "", self.env)).read_text("utf-8")
        events = [event for line in text.split("\n") for event in demo.parse_session(line)]
        return [(event.kind, event.text) for event in events]

    def delivered(self) -> list[str]:
        return [text for kind, text in self.kinds() if kind == "delivered"]

    def ended(self) -> int:
        wait_for(
            lambda: self.read() is not None and self.process.poll() is not None, "its end", lambda: self.out, PATIENCE
        )
        return int(self.process.returncode)

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Any]:
    made: list[Terminal] = []

    def begin(prompt: str = "make it so\ndemo: pause=0", **order: Any) -> Terminal:
        made.append(Terminal(tmp_path / str(len(made)), prompt, **order))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def test_demo_works_on_its_prompt_and_then_waits(begun: Any) -> None:
    terminal = begun("-x 'it' $(id)\ndemo: pause=0", fresh="s-1")
    terminal.wait_look(READY)
    kinds = terminal.kinds()
    assert [kind for kind, _ in kinds][:3] == ["session_started", "delivered", "text"]
    assert kinds[-1] == ("result", "the task is done")
    assert [kind for kind, _ in kinds].count("tool_use") == 4
    assert terminal.delivered() == ["-x 'it' $(id)\ndemo: pause=0"]
    assert terminal.process.poll() is None


def test_demo_closes_its_task_only_when_it_is_told_to(begun: Any) -> None:
    leaving, closing = begun("demo: pause=0"), begun("demo: pause=0 close")
    for terminal in (leaving, closing):
        terminal.wait_look(READY)
    assert not leaving.closed.exists()
    assert closing.closed.read_text().startswith("close fleet-a --reason")


def test_paste_of_several_lines_is_one_message_sent_by_enter(begun: Any) -> None:
    terminal = begun("")
    terminal.wait_look(READY)
    terminal.write(b"\x1b[200~one\ntwo\x1b[201~")
    terminal.wait_look("")
    assert terminal.delivered() == []
    terminal.write(b"\r")
    terminal.wait("the task is done")
    assert terminal.delivered() == ["one\ntwo"]


def test_message_during_work_becomes_the_next_turn(begun: Any) -> None:
    terminal = begun("go\ndemo: steps=4 pause=0.2")
    terminal.wait("Step 1")
    terminal.write(b"\x1b[200~" + b"long " * 40_000 + b"\x1b[201~\r")
    terminal.wait_look(BUSY)
    terminal.wait("that is done")
    assert terminal.delivered() == ["go\ndemo: steps=4 pause=0.2", "long " * 40_000]
    assert [kind for kind, _ in terminal.kinds()].count("result") == 2


@pytest.mark.parametrize(("key", "words"), [(b"y", "Using write."), (b"n", "I was not allowed to.")])
def test_question_waits_for_a_key_and_ignores_a_paste(key: bytes, words: str, begun: Any) -> None:
    terminal = begun("demo: question steps=1 pause=0")
    terminal.wait("(y/n)")
    terminal.write(b"\x1b[200~y\x1b[201~\r")
    time.sleep(0.1)
    assert terminal.look() == "question"
    terminal.write(key)
    terminal.wait(words)
    terminal.wait_look(READY)
    assert words in [text for _, text in terminal.kinds()]


def test_one_interruption_ends_the_turn_and_two_end_the_demo(begun: Any) -> None:
    terminal = begun("demo: hang=middle pause=0")
    terminal.wait("Step 1")
    terminal.write(b"\x03")
    terminal.wait("interrupted")
    terminal.wait_look(READY)
    assert terminal.kinds()[-1] == ("result", "interrupted")
    terminal.write(b"\x03")
    terminal.wait("again ends it")
    terminal.wait_look(READY)
    terminal.write(b"\x03")
    assert terminal.ended() == 0


@pytest.mark.parametrize("words", [b"exit\r", b"\x04"])
def test_demo_ends_when_it_is_told_to(words: bytes, begun: Any) -> None:
    terminal = begun("")
    terminal.wait_look(READY)
    terminal.write(words)
    assert terminal.ended() == 0
    shown = terminal.read()
    assert shown.rindex("\x1b[?2004l") > shown.rindex("\x1b[?2004h")


def test_signal_ends_the_demo(begun: Any) -> None:
    terminal = begun("demo: hang=middle")
    terminal.wait("Step 1")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.ended() == 128 + signal.SIGTERM


def test_long_prompt_is_processed_like_a_short_one(begun: Any) -> None:
    prompt = "x" * 150_000 + "\ndemo: steps=1 pause=0"
    terminal = begun(prompt)
    terminal.wait_look(READY)
    assert terminal.delivered() == [prompt]
    assert "Step 1 of 1" in terminal.out


def test_demo_prints_no_cursor_movement(begun: Any) -> None:
    terminal = begun("\x1b[2J\x1b]0;title\x07 evil\ndemo: pause=0")
    terminal.wait_look(READY)
    assert "\x1b[2J" not in terminal.out and "\x1b]0" not in terminal.out
    assert json.dumps(terminal.delivered()) == json.dumps(["\x1b[2J\x1b]0;title\x07 evil\ndemo: pause=0"])


def test_demo_reports_a_missing_terminal(tmp_path: Path) -> None:
    command = load("demo").terminal(Order(task=a_task(), prompt="x", folder=str(tmp_path)))
    assert command is not None
    ran = subprocess.run(command.argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "demo agent: it needs a terminal\n")
