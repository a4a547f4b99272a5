"""Stubs of codex, claude and gemini, for tests that name coders as users do: they finish at once, without a model.

Each stores its prompt in its task's folder, adds a file to its workplace, hands in a result, and reports success in the
format of the CLI whose name it has. A test may set what they do, see `play`.
"""

import json
from typing import Any

from program import Program

FOLDER = "stubs"
NAMES = ("codex", "claude", "gemini")
#: claude's stub reads only the first line, because fleet decides when claude's input ends.
PROGRAM = """\
#!/bin/sh
name=${0##*/}
[ "$1" != --version ] || { echo "$name 1.0.0"; exit; }
if [ "$name" = claude ]; then head -n 1; else cat; fi > "$FLEET_TASK_DIR/heard"
ls > "$FLEET_TASK_DIR/found"
summary="$name wrote it" status=completed next='"'"as $name says"'"'
if [ -e "${0%/*}/part" ]; then . "${0%/*}/part"; else echo "by $name" > "$name-$FLEET_TASK_ID.txt"; fi
echo '{"summary": "'"$summary"'", "status": "'"$status"'", "next_steps": ['"$next"']}' \\
    > "$FLEET_ARTIFACT_DIR/result.json"
case $name in
codex) echo '{"type": "thread.started", "thread_id": "0199a213-81c0-7800-8aa1-bbab2a035a53"}'
    echo '{"type": "item.completed", "item": {"id": "1", "type": "command_execution", "command": "ls", "exit_code": 0}}'
    echo '{"type": "item.completed", "item": {"id": "2", "type": "agent_message", "text": "done"}}'
    echo '{"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}' ;;
claude) echo '{"type": "system", "subtype": "init", "session_id": "a3042909-fb0d-42a0-86fd-6f57da72a26d"}'
    tool='{"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "ls"}}'
    echo '{"type": "assistant", "message": {"role": "assistant", "content": ['"$tool"']}}'
    echo '{"type": "result", "subtype": "success", "is_error": false, "num_turns": 1, "result": "done"}' ;;
gemini) echo '{"type": "init", "session_id": "8af3d764-1b15-4d63-b994-38cdcabf4b6c", "model": "m"}'
    echo '{"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "1", "parameters": {"command": "ls"}}'
    echo '{"type": "result", "status": "success", "stats": {}}' ;;
esac
"""


def with_stub_clis(fleet: Program) -> None:
    """Put the stubs first on PATH, each with a login."""
    folder = fleet.user / FOLDER
    folder.mkdir()
    for name in NAMES:
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    keys = {"CODEX_API_KEY": "none", "ANTHROPIC_API_KEY": "none", "GEMINI_API_KEY": "none"}
    fleet.env |= {"PATH": f"{folder}:{fleet.env['PATH']}"} | keys


def play(fleet: Program, part: str) -> None:
    """Make the stubs run this shell code. It knows $name and $heard, and may set $summary, $status and $next."""
    (fleet.user / FOLDER / "part").write_text(f'heard=$(cat "$FLEET_TASK_DIR/heard")\n{part}')


def heard(fleet: Program, task: str) -> str:
    """Return the prompt of the stub of a task, without the text that fleet adds for every agent."""
    text = (fleet.home / "tasks" / task / "heard").read_text()
    if text.startswith("{"):
        told: dict[str, Any] = json.loads(text)
        content = told["message"]["content"]
        text = content if isinstance(content, str) else content[0]["text"]
    return text.partition("\n\nTask folder: ")[0].partition("\n\n")[2]


def found(fleet: Program, task: str) -> list[str]:
    """Return the files that existed where the stub started."""
    return (fleet.home / "tasks" / task / "found").read_text().split()
