"""Real CLIs on a real screen: a pane of a separate tmux server, inside the closed network."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from builders import a_task
from fleet.coders import load
from fleet.coders.base import BUSY, QUESTION, READY, Command, Order
from fleet.coders.dialogs import pre_answer
from fleet.core.event import Event, Kind
from model_server import Scenario
from model_server.network import ClosedNetwork
from needs import require
from real.cli_runs import program
from real.cli_setups import cli_env
from real.through_fleet import MODELS
from supervised import wait_for

#: A CLI starts slowly on a busy machine.
PATIENCE = 180.0
WIDTH, HEIGHT = 120, 40
#: tmux accepts at most 16 kB for a command, so the pane reads its command from a file.
BECOME = "import json, os, sys; to = json.load(open(sys.argv[1])); os.execvpe(to['argv'][0], to['argv'], to['env'])"


class Screen:
    """A pane in which one program runs, as a context manager that ends its tmux server."""

    def __init__(self, enter: Callable[..., list[str]], base: Path, command: Command, env: dict[str, str], cwd: Path):
        """Start the command with its files in `base`, the folder of its run."""
        require(shutil.which("tmux"), "tmux")
        base.mkdir(parents=True, exist_ok=True)
        for name, text in command.files.items():
            (base / name).write_text(text, "utf-8")
        order = base / "pane.json"
        order.write_text(json.dumps({"argv": command.argv, "env": {"TERM": "tmux-256color", **env, **command.env}}))
        # Not below `base`: the path of a socket has room for 108 bytes.
        self._place = tempfile.mkdtemp(prefix="screen-")
        self._tmux = [*enter("tmux"), "-S", f"{self._place}/tmux", "-f", "/dev/null"]
        stay = ["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"]
        where = ["-d", "-x", str(WIDTH), "-y", str(HEIGHT), "-c", str(cwd)]
        self.run(*stay, "new-session", *where, sys.executable, "-P", "-c", BECOME, str(order))

    def run(self, *argv: str, given: str = "") -> str:
        """Run a tmux command. Return its output."""
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "tmux-256color"}
        done = subprocess.run([*self._tmux, *argv], input=given, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def shown(self) -> str:
        """Return the text on the screen."""
        return self.run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, given by their tmux names."""
        self.run("send-keys", *keys)

    def paste(self, text: str) -> None:
        """Paste a text with brackets and without Enter."""
        self.run("load-buffer", "-b", "given", "-", given=text)
        self.run("paste-buffer", "-p", "-r", "-d", "-b", "given")

    def wait(self, holds: Callable[[str], object], what: str) -> str:
        """Wait for a condition on the screen, and return the screen. A failure shows the last screen."""
        wait_for(lambda: holds(self.shown()), what, self.shown, PATIENCE)
        return self.shown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run("kill-server")
        shutil.rmtree(self._place)


class RealScreen(Screen):
    """A real coder that works on a scenario, started as its adapter does, with a separate account folder."""

    def __init__(
        self,
        network: ClosedNetwork,
        base: Path,
        cli: str,
        scenario: Scenario,
        *,
        answered: bool = True,
        env: dict[str, str] | None = None,
        **order: Any,
    ) -> None:
        """Start the coder. Fields missing in the order have the values that fleet would choose.

        With `answered`, the coder asks nothing before its work and its prompt is typed.
        """
        program(cli)
        self.coder, self.scenario, self.work = load(cli), scenario, base / "work"
        home = base / "home"
        setup = cli_env(cli, scenario, home)
        self.env = setup.env | (env or {})
        for folder in (self.work, home / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        for path, text in setup.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        if answered:
            pre_answer(self.coder, FOLDERS[cli](home), str(self.work), self.env)
        run = base / f"run-{uuid4().hex[:8]}"
        given = {"prompt": "make it so", "model": MODELS[cli], "permissions": "skip", "fresh": str(uuid4())} | order
        command = self.coder.terminal(Order(task=a_task(), folder=str(run), **given))
        assert command is not None
        self.session, self.folder, self._since = command.session, run, time.time()
        super().__init__(network.enter, run, command, self.env, self.work)
        if answered and command.typed:
            self.until(READY)
            self.say(command.typed)

    def until(self, look: str) -> str:
        """Wait for this kind of screen and return it."""
        return self.wait(lambda screen: self.coder.look(screen) == look, f"a screen that is {look or 'not clear'}")

    def say(self, text: str) -> None:
        """Paste a text and press Enter when the input shows it. Repeat Enter if it came too soon after the paste."""
        self.wait(lambda screen: self.coder.look(screen) in (BUSY, READY), "a screen that can be typed to")
        self.paste(text)
        self.until("")
        pressed = 0.0

        def sent(screen: str) -> bool:
            nonlocal pressed
            if self.coder.look(screen) == "" and time.monotonic() > pressed + 1:
                pressed = time.monotonic()
                self.press("Enter")
            return self.coder.look(screen) != ""

        self.wait(sent, "the words to be sent")

    def events(self) -> list[Event]:
        """Return all events of its session file."""
        path = self._file()
        lines = path.read_text("utf-8").split("\n") if path else []
        return [event for line in lines for event in self.coder.parse_session(line)]

    def told(self, kind: str) -> list[str]:
        """Return the texts of all events of a kind."""
        return [event.text for event in self.events() if event.kind == kind]

    def agree(self) -> None:
        """Press Enter on a question. Repeat it if it came too soon after the question appeared."""
        pressed = 0.0

        def gone(screen: str) -> bool:
            nonlocal pressed
            if self.coder.look(screen) == QUESTION and time.monotonic() > pressed + 3:
                pressed = time.monotonic()
                self.press("Enter")
            return self.coder.look(screen) != QUESTION

        self.wait(gone, "the question to go")

    def wait_delivered(self, text: str) -> None:
        """Wait until a message has reached the model."""
        tell = lambda: f"{self.told(Kind.DELIVERED)}\n{self.shown()}"  # noqa: E731
        wait_for(lambda: text in self.told(Kind.DELIVERED), f"{text[:50]!r} to be delivered", tell, PATIENCE)

    def _file(self) -> Path | None:
        """Return the session file as fleet finds it: by the session id, or by the first line of a new file."""
        if not self.session:
            found = sorted(glob.glob(self.coder.recent_sessions(str(self.work), self.env)), reverse=True)  # noqa: PTH207
            for path in map(Path, found):
                begun = self.coder.session_of(path.read_text("utf-8").partition("\n")[0])
                if begun and begun[1] == str(self.work) and path.stat().st_mtime >= self._since:
                    self.session = begun[0]
        pattern = self.coder.transcript(self.session, str(self.work), self.env) if self.session else ""
        return next(map(Path, glob.glob(pattern)), None) if pattern else None  # noqa: PTH207


#: The account folder of each CLI in the homes of `cli_setups`.
FOLDERS: dict[str, Callable[[Path], str]] = {
    "claude": lambda home: str(home / "claude"),
    "codex": lambda home: str(home / "codex"),
    "gemini": str,
}
