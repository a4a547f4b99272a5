"""Draw docs/images/fleet.svg, the output of the real program while demo agents work: `make picture`."""

import html
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OUT = Path(__file__).parent.parent / "docs" / "images" / "fleet.svg"
COLUMNS = 118

#: The prompt of each agent. Lines that begin with `demo:` control the built-in demo coder.
PROMPTS = {
    "login": "Fix the login\ndemo: pause=1",
    "parser": 'Write the parser\ndemo: ask="Which grammar: LL or LR?"',
    "guide": "Update the guide\ndemo: idle",
}
SETUP = (
    "git init -q -b main .",
    "fleet init --permissions user --type minimal",
    "fleet config set coder=demo",
    "fleet config set --project 'verify.command=python3 check.py'",
    "fleet trust --yes",
    "git add .",
    "git commit -q -m 'Start the project'",
)
#: The commands of the picture. `{question}` is the id of the task that asks.
STORY = (
    *(f"fleet create {branch} --headless --prompt-file prompts/{branch}.md" for branch in PROMPTS),
    "fleet list",
    'fleet answer {question} "LL"',
    "fleet wait login parser",
    "fleet receipt guide | head -2",
    "fleet merge login parser guide",
)
COLORS = {"1": "#ffffff", "2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
COLOR = r"\x1b\[[0-9;]*m"
CHAR, LINE, SIZE, PAD = 8.0, 18, 13, 16
STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d0d7de }
g { animation: appear .2s backwards }
@keyframes appear { from { opacity: 0 } }
@media (prefers-reduced-motion: reduce) { g { animation: none } }
"""


WHO = {"NAME": "Ada", "EMAIL": "ada@example.org"}


def main() -> None:
    """Run the commands in a temporary folder, and draw them."""
    with tempfile.TemporaryDirectory(prefix="fleet-picture-") as folder:
        env = environment(folder)
        work = f"{folder}/project"
        write_project(Path(work))
        for line in SETUP:
            subprocess.run(line, shell=True, cwd=work, env=env, check=True, capture_output=True)
        try:
            blocks = record(work, env)
        finally:
            subprocess.run(["fleet", "run", "stop", "--stop-agents"], env=env, check=False, stdout=subprocess.DEVNULL)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(draw(blocks), "utf-8")
    print(f"wrote {OUT}")


def environment(folder: str) -> dict[str, str]:
    """Return an environment with a separate home and nothing of the user's fleet."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLEET_", "BEADS_", "BD_"))}
    who = {f"GIT_{role}_{what}": word for role in ("AUTHOR", "COMMITTER") for what, word in WHO.items()}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    return kept | who | {"HOME": folder, "PATH": path, "COLUMNS": str(COLUMNS), "TERM": "xterm"}


def write_project(folder: Path) -> None:
    """Write a small project with a check, and the prompts."""
    (folder / "prompts").mkdir(parents=True)
    (folder / "check.py").write_text("assert 1 + 1 == 2\n", "utf-8")
    for branch, prompt in PROMPTS.items():
        (folder / "prompts" / f"{branch}.md").write_text(prompt, "utf-8")


def record(work: str, env: dict[str, str]) -> list[tuple[str, str]]:
    """Run the story. Return each command with its output."""
    blocks: list[tuple[str, str]] = []
    for line in STORY:
        seen = re.findall(r"parser \((\S+)\)", "".join(text for _, text in blocks))
        command = line.format(question=seen[0] if seen else "")
        if command == "fleet list":
            time.sleep(1.5)  # one agent works, one asks, one is done
        blocks.append((command, run_in_terminal(command, work, env)))
    return blocks


def run_in_terminal(command: str, work: str, env: dict[str, str]) -> str:
    """Run a command in a pseudo-terminal. Return the text that stays on its screen."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(["sh", "-c", command], cwd=work, env=env, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        chunks = []
        while chunk := read(ours):
            chunks.append(chunk)
    os.close(ours)
    lines = b"".join(chunks).decode().replace("\r\n", "\n").rstrip().split("\n")
    return "\n".join(line.rpartition("\r\x1b[K")[2] for line in lines)


def read(terminal: int) -> bytes:
    """Return the next output of a terminal, or b"" at its end."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # the system's error after all programs closed the terminal
        return b""


def draw(blocks: list[tuple[str, str]]) -> str:
    """Return the SVG. Commands and their outputs appear one after another."""
    rows: list[str] = []
    groups: list[str] = []
    for number, (command, output) in enumerate(blocks):
        rows += [""] if rows else []
        for delay, text in ((number * 0.9, f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m"), (number * 0.9 + 0.4, output)):
            first = len(rows)
            rows += text.split("\n") if text else []
            lines = "".join(draw_line(first + at, row) for at, row in enumerate(rows[first:]))
            groups.append(f'<g style="animation-delay: {delay:.1f}s">{lines}</g>\n')
    longest = max(len(re.sub(COLOR, "", row)) for row in rows)
    width, height = longest * CHAR + 2 * PAD, len(rows) * LINE + 2 * PAD
    box = f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0d1117"/>\n'
    view = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    title = "<title>fleet runs three agents, believes two of them and merges their work</title>"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {view}>\n{title}\n<style>{STYLE}</style>\n{box}'
    return f"{head}{''.join(groups)}</svg>\n"


def draw_line(row: int, text: str) -> str:
    """Return one line of the screen, with its pieces placed by column so that any font lines up."""
    pieces, column, color = [], 0, ""
    for part in re.split(f"({COLOR})", text):
        if part.startswith("\x1b"):
            color = COLORS.get(part[2:-1].rpartition(";")[2], "")
        for word in [] if part.startswith("\x1b") else re.split(r"( {2,})", part):
            if word.strip():
                fill = f' fill="{color}"' if color else ""
                place = f'x="{PAD + column * CHAR:.0f}" textLength="{len(word) * CHAR:.0f}"'
                pieces.append(f"<tspan {place}{fill}>{html.escape(word, quote=False)}</tspan>")
            column += len(word)
    return f'<text y="{PAD + row * LINE + SIZE}">{"".join(pieces)}</text>' if pieces else ""


if __name__ == "__main__":
    main()
