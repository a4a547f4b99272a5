"""Record the output of a real `bd` for the scenarios in tests/recordings/bd, for comparison with fleet's own `bd`.

A scenario is a JSON file, `{"bd": "1.3.0", "steps": [...]}`. A recording is the same file with the answers filled in;
another recording replaces the answers. A step is one of

    {"argv": ["show", "fleet-aaa"], "stdin"?: text, "env"?: {name: value}}    answers: code, stdout, stderr
    {"write": "deps.jsonl", "text": text}                                     a file for later steps
    {"read": "export.jsonl"}                                                  answer: text

and may have a "note". Every scenario runs in a fresh repository, initialized with the prefix `fleet`. `Mask` replaces
the parts that differ between runs, so that two runs of a scenario give the same file.

    python tools/record_bd.py /path/to/bd tests/recordings/bd/*.json
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ANSWERS = ("code", "stdout", "stderr")
INIT = ("init", "--prefix", "fleet", "--quiet", "--non-interactive", "--skip-hooks", "--skip-agents")

# Scenarios write their own times outside of these years, so that the times stay visible in the recording.
YEAR = r"20(?:2[6-9]|[3-8]\d|9[0-8])"
TIMED = (
    (re.compile(rf"{YEAR}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"), "<TS>"),
    (re.compile(rf"{YEAR}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?"), "<TIME>"),
    (re.compile(rf"{YEAR}-\d\d-\d\d"), "<DATE>"),
    (re.compile(r"\b\d+ days ago"), "<N> days ago"),
    (re.compile(r'(?<="revision": ")-?\d+'), "<REVISION>"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<UUID>"),
)
ISSUE_ID = re.compile(r"\bfleet-[0-9a-z]{3,8}\b")

Step = dict[str, Any]


def main() -> None:
    """Record each of the scenarios on the command line, in place."""
    parser = argparse.ArgumentParser(description="Record what a real bd prints, for comparison with fleet's own.")
    parser.add_argument("bd", type=Path, help="the bd binary")
    parser.add_argument("scenarios", type=Path, nargs="+", help="scenario files, rewritten with the answers")
    arguments = parser.parse_args()
    for path in arguments.scenarios:
        scenario = json.loads(path.read_text())
        recording = {"bd": version(arguments.bd), "steps": record(arguments.bd.resolve(), scenario["steps"])}
        path.write_text(json.dumps(recording, indent=2, ensure_ascii=False) + "\n")
        print(f"{path.stem}: {len(recording['steps'])} steps")


def version(bd: Path) -> str:
    """Return the version that a bd binary reports, as `1.3.0`."""
    told = subprocess.run((bd, "version"), env=environment(Path("/")), capture_output=True, text=True, check=True)
    return told.stdout.split()[2]


def record(bd: Path, steps: list[Step]) -> list[Step]:
    """Run steps one after the other in a fresh repository. Return the steps with their answers."""
    with tempfile.TemporaryDirectory(prefix="record-bd-") as temporary:
        home = Path(temporary).resolve()
        repository = home / "repository"
        repository.mkdir()
        for command in (
            ("git", "init", "--quiet", "--initial-branch", "main"),
            ("git", "config", "--global", "user.name", "recorder"),
            ("git", "config", "--global", "user.email", "recorder@example.test"),
            (bd, *INIT),
        ):
            subprocess.run(command, cwd=repository, env=environment(home), stdin=subprocess.DEVNULL, check=True)
        mask = Mask(directory=str(repository), known=frozenset(ISSUE_ID.findall(json.dumps([asked(s) for s in steps]))))
        return [take(bd, step, repository, mask) for step in steps]


def environment(home: Path) -> dict[str, str]:
    """Return the environment of bd: no BD_* variables, no color, no usage metrics."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "NO_COLOR": "1",
        "DO_NOT_TRACK": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "BEADS_ACTOR": "recorder",
    }


@dataclass
class Mask:
    """A replacement of the parts that differ between runs: directories, times, revisions, comment and issue ids.

    Generated ids become `<ID1>`, `<ID2>` in the order of their appearance. Later steps may use these tokens.
    """

    directory: str
    known: frozenset[str]
    made_up: dict[str, str] = field(default_factory=dict)

    def hide(self, text: str) -> str:
        """Return an output in the form of the recording."""
        text = text.replace(self.directory, "<DIR>")
        for pattern, token in TIMED:
            text = pattern.sub(token, text)
        return ISSUE_ID.sub(self._token, text)

    def reveal(self, text: str) -> str:
        """Return an argument or input whose tokens are replaced by generated ids and directories."""
        for made_up, token in self.made_up.items():
            text = text.replace(token, made_up)
        return text.replace("<DIR>", self.directory)

    def _token(self, match: re.Match[str]) -> str:
        if match[0] in self.known:
            return match[0]
        return self.made_up.setdefault(match[0], f"<ID{len(self.made_up) + 1}>")


def take(bd: Path, step: Step, repository: Path, mask: Mask) -> Step:
    """Run one step. Return the step with its answer."""
    if "write" in step:
        (repository / step["write"]).write_text(mask.reveal(step["text"]))
        return step
    if "read" in step:
        return asked(step) | {"text": mask.hide((repository / step["read"]).read_text())}
    done = subprocess.run(
        (bd, *map(mask.reveal, step["argv"])),
        cwd=repository,
        env=environment(repository.parent) | step.get("env", {}),
        input=mask.reveal(step.get("stdin", "")),
        capture_output=True,
        text=True,
        timeout=120,
    )
    answer = {"code": done.returncode, "stdout": mask.hide(done.stdout), "stderr": mask.hide(done.stderr)}
    return asked(step) | answer


def asked(step: Step) -> Step:
    """Return a step without its answer."""
    answers = ("text",) if "read" in step else ANSWERS
    return {name: value for name, value in step.items() if name not in answers}


if __name__ == "__main__":
    main()
