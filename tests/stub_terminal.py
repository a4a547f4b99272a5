"""A stub of claude for terminals: it draws the screen and writes the session as claude does, and answers "done".

A test sets its behavior at the start:

    dialog    so many questions stand before its input, each until 1 is pressed; all other keys are lost
    deaf      keys typed in its first moments are lost
    sleeps    its input appears after so many seconds
"""

import sys
from pathlib import Path

from terminals import Terminals

PROGRAM = """\
#!{python}
import json, os, re, select, sys, time, tty

START = {start!r}
RULE = "─" * 40
argv = dict(word.partition("=")[::2] for word in sys.argv[1:])
if "--version" in argv:
    sys.exit(print("2.0.0 (Claude Code)"))
session = argv.get("--resume") or argv["--session-id"]
folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.environ["HOME"] + "/.claude"
folder += "/projects/" + re.sub("[^a-zA-Z0-9]", "-", os.getcwd())


def draw(*lines):
    os.write(1, ("\\x1b[2J\\x1b[H" + "\\r\\n".join(lines)).encode())


def keep(**line):
    with open(f"{{folder}}/{{session}}.jsonl", "a") as file:
        file.write(json.dumps(line | {{"sessionId": session, "cwd": os.getcwd()}}) + "\\n")


def swallow(seconds):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([0], [], [], left)[0]:
            os.read(0, 65536)


tty.setraw(0)
os.makedirs(folder, exist_ok=True)
os.write(1, b"\\x1b[?2004h")
time.sleep(START.get("sleeps", 0))
for number in range(int(START.get("dialog", 0))):
    asked = f"Allow step {{number}}?" if number else "Do you trust the files in this folder?"
    draw(RULE, asked, "", "❯ 1. Yes", "  2. No", "", "Enter to confirm · Esc to cancel")
    while b"1" not in os.read(0, 65536).split(b"\\x1b[200~")[0]:
        pass
if "deaf" in START:
    draw(RULE, "❯ ", RULE)
    swallow(START["deaf"])
typed = ""
while True:
    draw(RULE, "❯ [words]" if typed else "❯ ", RULE)
    data = os.read(0, 65536)
    while data.count(b"\\x1b[200~") > data.count(b"\\x1b[201~"):
        data += os.read(0, 65536)
    typed += re.sub("\\x1b.[0-9~]*", "", data.decode()).rstrip("\\r")
    if data.endswith(b"\\r") and typed:
        keep(type="user", message={{"role": "user", "content": typed}})
        text, typed = [{{"type": "text", "text": "done"}}], ""
        keep(type="assistant", message={{"role": "assistant", "id": "1", "stop_reason": "end_turn", "content": text}})
"""


def use_stub(home: Terminals, **start: float) -> None:
    """Make the agents of a home run this stub under the name claude."""
    folder = home.fleet.user / "stub"
    folder.mkdir()
    (folder / "claude").write_text(PROGRAM.format(python=sys.executable, start=start))
    (folder / "claude").chmod(0o755)
    home.set("coder=claude", f"coders.claude.program={folder}/claude")
    home.fleet.env["ANTHROPIC_API_KEY"] = "none"


def heard(home: Terminals) -> list[str]:
    """Return all messages that agents received, from their session files."""
    import json

    lines = [
        json.loads(line)
        for path in sorted(Path(home.fleet.env["HOME"]).glob(".claude/projects/*/*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    return [str(line["message"]["content"]) for line in lines if line["type"] == "user"]
