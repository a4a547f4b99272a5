"""A replacement of claude that plays the script in its prompt and reports it in claude's stream format.

A script is the line `play: [[verb, word…], …]`. The agent really uses the tools that it reports. It imports nothing of
fleet.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

SESSION = next((word[9:] for word in sys.argv if word.startswith("--resume=")), "") or str(uuid.uuid4())
PLACES = {
    "WORKSPACE": os.getcwd(),  # noqa: PTH109
    "ARTIFACTS": os.environ["FLEET_ARTIFACT_DIR"],
    "TASK_DIR": os.environ["FLEET_TASK_DIR"],
    "TASK": os.environ["FLEET_TASK_ID"],
    "FLEET": os.environ["FLEET_HOME"],
    "USER": os.environ["HOME"],
    "TMP": os.environ["TMPDIR"],
}
LINES: list[str] = []
DENIED: list[dict[str, object]] = []


def tell(kind: str, **fields: object) -> None:
    """Print one line of the stream, and keep it for the transcript."""
    line = json.dumps({"type": kind, "session_id": SESSION, **fields})
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    LINES.append(line)


def assistant(block: dict[str, object]) -> None:
    """Print one block of a message."""
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 1000, "output_tokens": 1}
    message = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
    tell("assistant", message=message | {"content": [block], "usage": usage}, parent_tool_use_id=None)


def begin(name: str, data: dict[str, object]) -> str:
    """Report the start of a tool. Return the id of the call."""
    call = f"toolu_{uuid.uuid4().hex[:20]}"
    assistant({"type": "tool_use", "id": call, "name": name, "input": data})
    return call


def end(call: str, text: str, *, ok: bool = True) -> None:
    """Report the result of a tool."""
    block = {"tool_use_id": call, "type": "tool_result", "content": text, "is_error": not ok}
    tell("user", message={"role": "user", "content": [block]}, parent_tool_use_id=None)


def placed(text: str) -> str:
    """Return a text with its placeholders replaced by paths."""
    for name, path in PLACES.items():
        text = text.replace(f"@{name}@", path)
    return text


def write(path: str, text: str) -> None:
    """Use the tool Write."""
    path = os.path.abspath(path)  # noqa: PTH100
    call = begin("Write", {"file_path": path, "content": text})
    put(path, text)
    end(call, f"File created successfully at: {path}")


def put(path: str, text: str) -> None:
    """Write a file with this text. A file that starts as a script does becomes executable."""
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    with open(path, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
        file.write(text)
    if text.startswith("#!"):
        os.chmod(path, 0o755)  # noqa: PTH101


def edit(path: str, old: str, new: str) -> None:
    """Use the tool Edit."""
    path = os.path.abspath(path)  # noqa: PTH100
    call = begin("Edit", {"file_path": path, "old_string": old, "new_string": new})
    with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123
        text = file.read()
    if old in text:
        put(path, text.replace(old, new, 1))
    end(call, f"The file {path} has been updated." if old in text else "String to replace not found.", ok=old in text)


def read(path: str) -> None:
    """Use the tool Read."""
    path = os.path.abspath(path)  # noqa: PTH100
    call = begin("Read", {"file_path": path})
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        end(call, file.read())


def bash(command: str) -> None:
    """Use the tool Bash."""
    call = begin("Bash", {"command": command, "description": "scripted"})
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, timeout=60)
    text = (done.stdout + done.stderr).decode(errors="replace")[-4000:].strip()
    end(call, text if done.returncode == 0 else f"Exit code {done.returncode}\n{text}", ok=done.returncode == 0)


def commit(message: str, *paths: str) -> None:
    """Commit as users of git do, in one command."""
    who = "git -c user.name=agent -c user.email=agent@example.invalid"
    bash(f"git add --all {' '.join(paths)} && {who} commit --quiet --message='{message}'")


def hand_in(**told: object) -> None:
    """Use the tool Write for result.json; `@HEAD@` stands for the last commit."""
    claim = {"summary": "did it", "files_changed": [], "tests": [], "commits": [], "next_steps": [], **told}
    text = json.dumps({"status": "completed", **claim})
    if "@HEAD" in text:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=True).stdout.decode().strip()
        text = text.replace("@HEAD_SHORT@", head[:9]).replace("@HEAD@", head)
    write(f"{PLACES['ARTIFACTS']}/result.json", placed(text))


def use(name: str, **data: object) -> None:
    """Start a tool that never ends."""
    begin(name, data)


def claim_tool(name: str, text: str, **data: object) -> None:
    """Report a tool that was never used."""
    end(begin(name, data), text)


def deny(command: str) -> None:
    """Report a command that was denied."""
    call = begin("Bash", {"command": command})
    end(call, "Claude requested permissions to use Bash, but you haven't granted it yet.", ok=False)
    DENIED.append({"tool_name": "Bash", "tool_use_id": call, "tool_input": {"command": command}})


def say(text: str) -> None:
    """Print words of the model."""
    assistant({"type": "text", "text": text})


def synthetic(text: str, error: str) -> None:
    """Print claude's message for a model that did not answer."""
    message = {"id": str(uuid.uuid4()), "model": "<synthetic>", "role": "assistant", "type": "message"}
    tell("assistant", message=message | {"content": [{"type": "text", "text": text}]}, error=error)


def raw(line: dict[str, object]) -> None:
    """Print a line unchanged."""
    tell(str(line.pop("type")), **line)


def bd(*words: str) -> None:
    """Run the `bd` on its PATH as a command."""
    bash(" ".join(["bd", *words]))


def forge(*lines: str) -> None:
    """Add lines to the transcript that never were in the stream."""
    LINES.extend(lines)


def result(text: str = "All done.", **changes: object) -> None:
    """Print the result line."""
    told: dict[str, object] = {
        "subtype": "success",
        "is_error": False,
        "api_error_status": None,
        "duration_ms": 900,
        "num_turns": 2,
        "result": text,
        "total_cost_usd": 0.0037,
        "usage": {"input_tokens": 201, "output_tokens": 60},
        "permission_denials": DENIED,
    }
    tell("result", **told | changes)


def stop(status: int) -> None:
    """Exit at once."""
    keep_transcript()
    os._exit(status)


def crash(number: int) -> None:
    """End by a signal."""
    keep_transcript()
    os.kill(os.getpid(), number)
    time.sleep(10)


def complain(text: str) -> None:
    """Print a line to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def again(*first: list[Any]) -> None:
    """Play these steps in the first run only, and exit; later runs play the steps after this one."""
    mark = f"{PLACES['TASK_DIR']}/played"
    if os.path.exists(mark):  # noqa: PTH110
        return
    put(mark, "once")
    play(list(first))
    keep_transcript()
    sys.exit(0)


def keep_transcript() -> None:
    """Write the transcript that claude keeps of a session."""
    folder = "".join(char if char.isascii() and char.isalnum() else "-" for char in PLACES["WORKSPACE"])
    place = f"{PLACES['USER']}/.claude/projects/{folder[:200]}"
    put(f"{place}/{SESSION}.jsonl", "\n".join(LINES) + "\n")


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb
    for verb in (
        *(write, edit, read, bash, commit, hand_in, use, claim_tool, deny, say, synthetic, raw, bd, forge, result),
        *(stop, crash, complain, again),
    )
}


def play(steps: list[list[Any]]) -> None:
    """Play steps one after the other."""
    for verb, *words in steps:
        named = words.pop() if words and isinstance(words[-1], dict) and words[-1].get("named") else {}
        told = {key: _placed(value) for key, value in named.items() if key != "named"}
        VERBS[verb](*map(_placed, words), **told)


def _placed(word: Any) -> Any:
    return placed(word) if isinstance(word, str) else word


def main() -> None:
    """Read the prompt, and play the script."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    first = json.loads(sys.stdin.readline())
    prompt = first["message"]["content"]
    script = f"{PLACES['TASK_DIR']}/script.json"
    for line in prompt.splitlines():
        if line.startswith("play: "):
            put(script, line[len("play: ") :])
            break
    tell("system", subtype="init", cwd=PLACES["WORKSPACE"], model="claude-opus-4-8", tools=["Bash"], mcp_servers=[])
    with open(script, encoding="utf-8") as file:  # noqa: PTH123
        steps = json.load(file)
    with contextlib.suppress(BrokenPipeError):
        play(steps)
    keep_transcript()


if __name__ == "__main__":
    main()
