"""The demo agent: a small program that works on a task like a real agent, but without a model.

It reads the prompt from stdin and keeps the artifacts that the protocol asks for. It takes a few steps with tools that
really act. It hands in `result.json`, runs `bd close` and reports everything on stdout in the format of the adapter.
Lines of the task's description that begin with `demo:` steer it, to test fleet's reactions:

    demo: steps=5 pause=0.05       number of steps, and the pause after each (default: 3 and 0.05 s)
    demo: lines=1000               print that many more lines
    demo: silent=60                print nothing for that many seconds, after the first step
    demo: fail=1                   fail that many runs of the task before one succeeds
    demo: ask="Which colour?"      ask, end blocked, and continue once an answer is below the question
    demo: limit=30                 hit a rate limit that ends in that many seconds; runs before then hit it too
    demo: context=95               report the context as that full, in percent
    demo: hang=start               print nothing, forever; `middle`: after the first step, `result`: after the end
    demo: exit=3                   exit with that code, without a result
    demo: noclose                  hand in `result.json`, but do not close the task
    demo: idle                     report that all is done without doing anything
    demo: question                 ask at its terminal for permission to write; without a terminal do not ask

In a terminal (`fleet.coders.demo.terminal`) it leaves the task open, unless `demo: close` is given. Each message is
another turn: one step, or whatever its own `demo:` lines request.

The agent is one long file because it represents a program that is not part of fleet.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

    Said = dict[str, Any]

WINDOW = 200_000
MEMORY = "demo.json"  # state for the next run: failures so far, the end of a limit


class StopSignal(BaseException):
    """A signal that asks the agent to stop. Its argument is the signal's number."""


def main(argv: list[str]) -> int:
    """Work on the task whose prompt is on stdin. Return the exit code."""
    options = dict(word.removeprefix("--").split("=", 1) for word in argv if word.startswith("--") and "=" in word)
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    steering = steering_in(sys.stdin.buffer.read().decode("utf-8", "replace"))
    agent = DemoAgent(steering, say, model=options.get("model", "demo-1"), session=options.get("session", ""))
    try:
        return agent.work()
    except StopSignal as stopped:
        say({"type": "result", "ok": False, "text": "stopped"})
        return 128 + int(stopped.args[0])


def steering_in(prompt: str) -> dict[str, str]:
    """Return the settings in the `demo:` lines.

    A later line adds to earlier ones; a word without a value is a switch.
    """
    found = {}
    for line in prompt.splitlines():
        if not line.startswith("demo:"):
            continue
        try:
            words = shlex.split(line.removeprefix("demo:"))
        except ValueError:  # an unclosed quote
            words = line.removeprefix("demo:").split()
        for word in words:
            key, _, value = word.partition("=")
            found[key] = value or "1"
    return found


class DemoAgent:
    """One run of the demo agent. `say` gets its output, one line at a time."""

    def __init__(self, steering: dict[str, str], say: Callable[[Said], None], *, model: str, session: str) -> None:
        self.steering = steering
        self.say = say
        self.heard = ""  # the prompt, if it was typed at a terminal
        self.allow: Callable[[str], bool] = lambda _what: True
        self.model = model
        self.session = session or f"demo-{os.urandom(8).hex()}"
        self.task = os.environ.get("FLEET_TASK_ID", "")
        self.artifacts = Path(os.environ.get("FLEET_ARTIFACT_DIR") or "artifacts")
        self.file = Path.cwd() / f"demo-{self.task or 'task'}.md"
        self.memory: dict[str, Any] = {}
        self.calls = 0
        self.total = {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0}

    def work(self) -> int:
        self._hang_if("start")
        self.say({"type": "init", "session": self.session, "model": self.model, "cwd": str(Path.cwd())})
        if self.heard:
            self.say({"type": "user", "text": self.heard})
        if "idle" in self.steering:
            return self._end(ok=True, text="All done!")
        self._look()
        if self._is_limited():
            return self._end(ok=False, text="rate limit reached")
        if self.steering.get("ask") and not self._answer():
            return self._ask(self.steering["ask"])
        self._steps()
        if self.memory.get("failures", 0) < self._number("fail", 0):
            self._remember(failures=self.memory.get("failures", 0) + 1)
            self.say({"type": "error", "text": f"failure {self.memory['failures']}, as asked for"})
            return self._end(ok=False, text="could not do it this time")
        if "exit" in self.steering:
            sys.stderr.write("demo agent: ends badly, as asked for\n")
            return int(self._number("exit", 1))
        return self._finish()

    def reply(self, text: str) -> int:
        """Take one more turn for a message from the terminal. Return its exit code."""
        self.steering = {"steps": "1"} | steering_in(text)
        self.say({"type": "user", "text": text})
        self._hang_if("start")
        self.say({"type": "text", "text": f"You said: {text[:200]}"})
        self._steps()
        return self._end(ok=True, text="that is done")

    def _look(self) -> None:
        self.artifacts.mkdir(parents=True, exist_ok=True)
        earlier = [path.name for path in map(self._artifact, ("PLAN_AND_STATUS.md", "KNOWLEDGE.md", "Q&A.md"))]
        found = [name for name in earlier if self._artifact(name).exists()]
        self.say({"type": "text", "text": f"Going on from {', '.join(found)}." if found else "A fresh start."})
        try:
            memory = json.loads(self._artifact(MEMORY).read_text("utf-8"))
            self.memory = memory if isinstance(memory, dict) else {}
        except (OSError, ValueError):
            self.memory = {}
        self._plan("in_progress")

    def _steps(self) -> None:
        count = int(self._number("steps", 3))
        if "question" in self.steering and not self.allow(f"write {self.file.name}"):
            self.say({"type": "text", "text": "I was not allowed to."})
            return
        for number in range(1, count + 1):
            self._step(number, count)
            if number == 1:
                self._hang_if("middle")
                time.sleep(self._number("silent", 0))
        for number in range(int(self._number("lines", 0))):
            self.say({"type": "text", "text": f"line {number + 1}"})

    def _step(self, number: int, count: int) -> None:
        kind = ("write", "read", "list")[(number - 1) % 3]
        self.say({"type": "text", "text": f"Step {number} of {count}: {kind}."})
        if kind == "write":
            self._tool("write", {"path": str(self.file)}, lambda: self._append(f"step {number} of {self.task}\n"))
        elif kind == "read":
            self._tool("read", {"path": str(self.file)}, lambda: self.file.read_text("utf-8")[:200])
        else:
            self._tool("list", {"path": "."}, lambda: " ".join(sorted(os.listdir())[:20]))  # noqa: PTH208 - names
        self._use(number)
        time.sleep(self._number("pause", 0.05))

    def _append(self, text: str) -> str:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text)
        return f"wrote {len(text)} characters"

    def _tool(self, tool: str, given: dict[str, Any], act: Any) -> bool:
        self.calls += 1
        call = f"call-{self.calls}"
        use = {"type": "tool_use", "id": call, "tool": tool, "input": given}
        self.say({"type": "turn", "parts": [{"type": "text", "text": f"Using {tool}."}, use]})
        try:
            text, ok = act(), True
        except OSError as error:
            text, ok = f"{tool}: {error.strerror}", False
        self.say({"type": "tool_result", "id": call, "tool": tool, "ok": ok, "text": text})
        return ok

    def _use(self, number: int) -> None:
        tokens = {"input": 1200, "output": 150, "cache_read": 800 * number, "cache_write": 400}
        self.total = {name: self.total[name] + count for name, count in tokens.items()}
        full = self._number("context", 0)
        context = int(WINDOW * full / 100) if full else 6000 + 1500 * number
        cost = round(sum(self.total.values()) * 3e-6, 6)
        self.say({"type": "usage", "tokens": self.total, "cost_usd": cost, "context": context, "window": WINDOW})

    def _is_limited(self) -> bool:
        seconds = self._number("limit", 0)
        if not seconds:
            return False
        now = datetime.now(UTC)
        if "limited_until" not in self.memory:
            self._remember(limited_until=(now + timedelta(seconds=seconds)).isoformat())
        until = datetime.fromisoformat(self.memory["limited_until"])
        if until > now:
            text = f"rate limit reached, resets at {until:%H:%M:%S} UTC"
            self.say({"type": "limit", "kind": "rate", "resets_at": until.isoformat(), "text": text})
        return until > now

    def _answer(self) -> str:
        """Return the text below the question's `## A:`. Empty if the question was not asked or not answered."""
        try:
            text = self._artifact("Q&A.md").read_text("utf-8", "replace")
        except OSError:
            return ""
        _, asked, below = text.partition(f"## Q: {self.steering['ask']}\n")
        _, answered, answer = below.partition("\n## Q:")[0].partition("## A:")
        answer = answer.partition("\n")[2].strip() or answer.strip()
        if asked and answered and answer:
            self.say({"type": "text", "text": f"The answer is: {answer}"})
            self._know(f"{self.steering['ask']} {answer}")
            return answer
        return ""

    def _ask(self, question: str) -> int:
        path = self._artifact("Q&A.md")
        heading = f"## Q: {question}\n"
        if not path.exists() or heading not in path.read_text("utf-8", "replace"):
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{heading}\nThe demo agent was told to ask this.\n\n")
        self._plan("blocked")
        self._bd("update", self.task, "--status", "blocked", "--notes", f"QUESTION: {question}")
        return self._end(ok=True, text=f"I need an answer: {question}")

    def _finish(self) -> int:
        self._know(f"{self.file.name} has one line for each writing step.")
        self._plan("completed")
        changed = [str(self.file)] if self.file.exists() else []
        result = {
            "summary": f"took {self.calls} steps",
            "files_changed": changed,
            "tests": [],
            "commits": [],
            "next_steps": [],
            "status": "completed" if changed else "completed_no_changes",
        }
        path = self._artifact("result.json")
        self._tool("write", {"path": str(path)}, lambda: f"wrote {path.write_text(json.dumps(result, indent=2))}")
        if "noclose" not in self.steering:
            self._bd("close", self.task, "--reason", "the demo agent took its steps")
        return self._end(ok=True, text="the task is done")

    def _bd(self, *words: str) -> None:
        if self.task:
            self._tool("bd", {"argv": ["bd", *words]}, lambda: run("bd", *words))

    def _end(self, *, ok: bool, text: str) -> int:
        self.say({"type": "result", "ok": ok, "text": text})
        self._hang_if("result")
        return 0 if ok else 1

    def _hang_if(self, where: str) -> None:
        while self.steering.get("hang") == where:
            time.sleep(3600)

    def _plan(self, status: str) -> None:
        text = f"# {self.task}\n\nPlan: take a few steps, hand in, close.\n\n## Status\n{status}, {self.calls} calls\n"
        self._artifact("PLAN_AND_STATUS.md").write_text(text, "utf-8")

    def _know(self, fact: str) -> None:
        with self._artifact("KNOWLEDGE.md").open("a", encoding="utf-8") as file:
            file.write(f"- {fact}\n")

    def _remember(self, **facts: Any) -> None:
        self.memory |= facts
        self._artifact(MEMORY).write_text(json.dumps(self.memory), "utf-8")

    def _artifact(self, name: str) -> Path:
        return self.artifacts / name

    def _number(self, key: str, otherwise: float) -> float:
        try:
            return max(0.0, min(float(self.steering.get(key, otherwise)), 1e7))
        except ValueError:
            return otherwise


def say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def run(*argv: str) -> str:
    """Run a program found on PATH. Its output goes to stderr because stdout is the stream.

    Raises OSError if it fails.
    """
    # The subprocess module would double this agent's start time.
    child = os.posix_spawnp(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, f"exit code {code}")
    return "exit code 0"


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise StopSignal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
