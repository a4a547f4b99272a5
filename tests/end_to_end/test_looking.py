"""`fleet logs`, `logs -f`, `attach` without a terminal, and `list -w`: what a person sees while agents work."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from supervised import PATIENCE, wait_for
from terminals import Screen, Terminals, home

__all__ = ["home"]


class Output:
    """A command that prints continuously, with a pipe as its stdout."""

    def __init__(self, home: Terminals, *words: str) -> None:
        self.process = subprocess.Popen(
            [*home.fleet.argv, *words],
            cwd=home.fleet.cwd,
            env=home.fleet.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.append(line.rstrip("\n"))

    def has(self, text: str) -> bool:
        return any(text in line for line in self.lines)

    def end(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code


@contextmanager
def running(home: Terminals, *words: str) -> Iterator[Output]:
    """Yield such a command, and end it with the test."""
    made = Output(home, *words)
    try:
        yield made
    finally:
        assert made.process.stdin is not None
        made.process.stdin.close()
        if made.process.poll() is None:
            made.process.kill()
        made.end()


def test_last_lines_of_an_ended_terminal_are_lines_of_work(home: Terminals) -> None:
    task = home.told("create", "work", "--prompt", "work\ndemo: lines=30")["task"]
    home.wait_alive("work")
    home.tmux("send-keys", "-t", "=ai_work:", "C-d")
    wait_for(lambda: home.runs(task)[-1]["ended_at"], "its end", home.describe)
    every = home.fleet.ok("logs", "work", "-n", "0").splitlines()
    assert "Pane is dead" not in "\n".join(every) and every[-1].strip(), every[-20:]
    assert home.fleet.ok("logs", "work", "-n", "3").splitlines() == every[-3:]


def test_following_a_headless_agent_shows_each_event_once_and_ends_with_it(home: Terminals) -> None:
    home.told("create", "work", "--headless", "--prompt", "work\ndemo: steps=6 pause=0.4", "--no-wait")
    with running(home, "logs", "-f", "work") as output:
        assert output.end() == 0
    assert [sum(f"Step {number} of 6" in line for line in output.lines) for number in range(1, 7)] == [1] * 6


def test_following_a_terminal_shows_new_output_and_ends_with_it(home: Terminals) -> None:
    home.told("create", "work", "--prompt", "work")
    home.wait_alive("work")
    with running(home, "logs", "-f", "work") as output:
        wait_for(lambda: output.lines, "its first lines")
        home.fleet.ok("prompt", "work", "now paint it turquoise")
        wait_for(lambda: output.has("turquoise"), "what came later", lambda: "\n".join(output.lines))
        assert output.process.poll() is None
        home.fleet.ok("done", "work")
        assert output.end() == 0
    assert not output.has("Pane is dead")


@pytest.mark.parametrize("way", ["pipe", "terminal"])
def test_line_typed_to_a_headless_agent_is_a_prompt(home: Terminals, way: str) -> None:
    task = home.told("create", "work", "--headless", "--prompt", "work\ndemo: hang=middle")["task"]
    wait_for(lambda: home.runs(task) and home.runs(task)[0]["tool_calls"], "its first step", home.describe)
    if way == "pipe":
        with running(home, "attach", "work") as output:
            wait_for(lambda: output.has("lines you type are sent to it"), "its head")
            assert output.process.stdin is not None
            output.process.stdin.write("use blue\n")
            output.process.stdin.flush()
            wait_for(lambda: output.has("queued; ") or output.has("delivered to"), "what became of it")
    else:
        screen = Screen(home, "attach", "work")
        screen.wait_for("lines you type are sent to it")
        screen.press(b"use blue\r")
        screen.wait_for("queued; ")
        screen.press(b"\x03")
        assert screen.end() == 130
    (message,) = home.rows("select text from messages where task = ?", task)
    assert message["text"] == "use blue"


def test_list_measures_cpu_when_no_supervisor_takes_samples(home: Terminals) -> None:
    home.told("create", "work", "--headless", "--prompt", "work\ndemo: hang=middle", "--no-wait")
    wait_for(lambda: home.listed()["work"]["status"] == "working", "its first step", home.describe)
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: home.listed()["work"]["cpu_percent"] is not None, "an answer of its shim", home.describe)
    home.fleet.ok("run", "start")


def test_silent_agent_shows_when_the_watchdog_stops_it(home: Terminals) -> None:
    home.set("watchdog.silence_seconds=60")
    task = home.told("create", "work", "--headless", "--prompt", "work\ndemo: hang=middle")["task"]
    wait_for(lambda: home.told("tasks")[0]["stops_at"], "the supervisor's next look", home.describe)
    assert re.search(r"silent: stopped in \d+s unless it works", home.fleet.ok("tasks"))
    assert re.search(r"silent: +stopped in \d+s unless it works", home.fleet.ok("show", task))


@pytest.mark.parametrize("command", ["list", "tasks"])
def test_watched_table_is_updated_until_ctrl_c(home: Terminals, command: str) -> None:
    home.told("create", "first", "--prompt", "the first")
    screen = Screen(home, command, "-w")
    screen.wait_for("first")
    home.told("create", "second", "--prompt", "the second", "--no-wait")
    screen.wait_for("second")
    screen.press(b"\x03")
    assert screen.end() == 130
    assert screen.seen.count(b"\x1b[?1049h") == screen.seen.count(b"\x1b[?1049l") == 1
    assert command == "tasks" or b" tokens \xc2\xb7 " in screen.seen
