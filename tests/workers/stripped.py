"""An agent that starts programs without an environment, some as orphans, and prints their answers.

`stripped.py FOLDER` does what FOLDER/plan.json says, a list of {"how": …, "argv": …} or {…, "calls": [[tool, given]]},
and leaves the answers in FOLDER/answers.json; {task} is its own. It imports nothing of fleet.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Becomes what it is told once its parent is gone, with an empty environment.
ORPHAN = """
import os, sys, time
parent = os.getpid()
if os.fork():
    os._exit(0)
os.setsid()
while os.getppid() == parent:
    time.sleep(0.01)
os.execve(sys.argv[1], sys.argv[1:], {})
"""


def started(how: str, argv: list[str]) -> "subprocess.Popen[bytes]":
    """Run a program without environment variables, and with `orphan` also without a parent."""
    words = argv if how == "child" else [sys.executable, "-I", "-S", "-c", ORPHAN, *argv]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, env={}, cwd="/")


def ran(how: str, argv: list[str]) -> dict[str, Any]:
    """Return the output of a command. The exit code of an orphan is unknown."""
    process = started(how, argv)
    out, _ = process.communicate(timeout=60)
    return {"code": process.returncode if how == "child" else None, "out": out.decode()}


def called(how: str, argv: list[str], calls: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the answers of an MCP server's tools."""
    process = started(how, argv)
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "stripped", "version": "1"}}
    asked(process, 0, "initialize", about)
    send(process, {"method": "notifications/initialized"})
    answers = [
        asked(process, number, "tools/call", {"name": tool, "arguments": given})
        for number, (tool, given) in enumerate(calls, 1)
    ]
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)
    return [json.loads(answer["content"][0]["text"]) for answer in answers]


def send(process: "subprocess.Popen[bytes]", message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def asked(process: "subprocess.Popen[bytes]", number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request. Skip other messages."""
    send(process, {"id": number, "method": method, "params": params})
    assert process.stdout is not None
    for line in process.stdout:
        said = json.loads(line) if line.startswith(b"{") else {}
        if said.get("id") == number and "result" in said:
            return dict(said["result"])
    raise SystemExit(f"no answer to {method} {params}")


def main(folder: Path) -> None:
    sys.stdin.read()
    plan = json.loads((folder / "plan.json").read_text().replace("{task}", os.environ["FLEET_TASK_ID"]))
    answers = [
        called(each["how"], each["argv"], each["calls"]) if "calls" in each else ran(each["how"], each["argv"])
        for each in plan
    ]
    (folder / "answers.new").write_text(json.dumps({"run": os.environ["FLEET_RUN_ID"], "answers": answers}))
    (folder / "answers.new").rename(folder / "answers.json")
    sys.stdout.write(json.dumps({"text": "all done", "tool": "shell", "over": True}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
