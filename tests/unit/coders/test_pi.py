"""Pi: its options, its extension as node runs it, and the parts of its stream that no recording contains."""

import json
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from builders import a_task
from contract.coder_recordings import lines_of
from fleet.coders.base import RESUME, SAME_CWD, Order
from fleet.coders.pi import PiCoder
from fleet.core.event import Event, Kind, Limit, Usage
from needs import require

PI = PiCoder()
SESSION = "01a1e234-d2c6-7605-bfe5-1f1f24a52771"
ANSWER = {"role": "assistant", "stopReason": "stop", "content": [{"type": "text", "text": "done"}]}


def an_order(**changes: Any) -> Order:
    return Order(**{"task": a_task(), "prompt": "mend it\n", **changes})


def said(**line: Any) -> list[Event]:
    return list(PI.parse(json.dumps(line)))


def ended(**message: Any) -> list[Event]:
    return said(type="agent_end", messages=[{**ANSWER, **message}])


def test_prompt_is_passed_by_stdin_and_the_extension_is_in_the_run_folder() -> None:
    command = PI.command(an_order(folder="/runs/1"))
    (name,) = command.files
    assert command.argv == ("pi", "--print", "--mode", "json", "--extension", f"/runs/1/{name}")
    assert command.stdin == "mend it\n"
    homeless = PI.command(an_order())
    assert homeless.argv == ("pi", "--print", "--mode", "json") and homeless.files == {}


def test_model_and_session_cannot_become_options_and_user_options_come_last() -> None:
    argv = PI.command(an_order(model="openai/gpt", session="s-1", flags=("--tools", "read"))).argv
    assert argv[4:] == ("--model", "openai/gpt", "--session", "s-1", "--tools", "read")
    odd = PI.command(an_order(model="--offline", session="@file")).argv
    assert odd[4:] == ("--model", " --offline", "--session", " @file")


def test_pi_resumes_its_session_and_is_stopped_by_a_signal() -> None:
    assert (PI.steering, PI.resumes, PI.stop_steps) == (RESUME, SAME_CWD, (SIGTERM,))


def test_account_has_its_own_folder_and_its_keys_reach_the_program() -> None:
    assert PI.config_env("/accounts/a") == {"PI_CODING_AGENT_DIR": "/accounts/a"}
    assert "/accounts/a/auth.json" in PI.login_signs(PI.config_env("/accounts/a"))
    signs = PI.login_signs({"HOME": "/home/user", "GROQ_API_KEY": "x"})
    assert {"GROQ_API_KEY", "/home/user/.pi/agent/auth.json"} <= {*signs}
    for name in (sign for sign in signs if not sign.startswith("/")):
        assert any(fnmatch(name, pattern) for pattern in PI.reads_env), name


def test_session_files_are_in_folders_named_after_directories(tmp_path: Path) -> None:
    file = tmp_path / "sessions" / "--srv-app--" / f"2026-11-16T02-09-02-378Z_{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    pattern = PI.transcript(SESSION, "/srv/app", {"PI_CODING_AGENT_DIR": str(tmp_path)})
    assert list(tmp_path.glob(str(Path(pattern).relative_to(tmp_path)))) == [file]
    assert PI.transcript("*/..", "/srv/app", {"HOME": "/home/user"}) == ""


@pytest.mark.parametrize(
    ("complaint", "kind"),
    [
        ("429 Rate limit reached. Please try again in 20s.", "rate"),
        ("429 You exceeded your current quota, please check your plan", "plan"),
        ("401 invalid x-api-key", "auth"),
        ('529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', "overload"),
    ],
)
def test_refused_request_is_reported_as_a_limit(complaint: str, kind: str) -> None:
    assert ended(stopReason="error", errorMessage=complaint) == [
        Event(kind=Kind.LIMIT, text=complaint, limit=Limit(kind=kind, text=complaint)),
        Event(kind=Kind.RESULT, ok=False, text=complaint),
    ]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"stopReason": "error", "errorMessage": "fetch failed"}, "fetch failed"),
        ({"stopReason": "length"}, "the model's answer was truncated at its maximum length"),
        ({"stopReason": "aborted"}, "it was interrupted"),
        ({"stopReason": "aborted", "errorMessage": "Request was aborted"}, "Request was aborted"),
        ({"stopReason": "toolUse"}, "it ended in the middle of its work"),
        ({"role": "toolResult"}, "it ended in the middle of its work"),
        ({"stopReason": None}, "it ended in the middle of its work"),
    ],
)
def test_end_not_chosen_by_the_model_is_a_bad_last_word(message: dict[str, Any], text: str) -> None:
    assert ended(**message) == [Event(kind=Kind.RESULT, ok=False, text=text)]


def test_last_message_is_the_last_word() -> None:
    earlier = {**ANSWER, "stopReason": "error", "errorMessage": "401 no"}
    assert said(type="agent_end", messages=[earlier, ANSWER]) == [Event(kind=Kind.RESULT, ok=True, text="done")]
    assert said(type="agent_end", messages=[]) == said(type="agent_end") == []


def test_retry_revokes_the_last_word() -> None:
    assert said(type="agent_start") == [Event(kind=Kind.SESSION_STARTED)]


def test_full_context_is_taken_from_pi() -> None:
    (full,) = said(type="compaction_start", reason="overflow")
    assert full.kind == Kind.CONTEXT_FULL
    assert said(type="compaction_start", reason="threshold") == []


def test_message_reports_thoughts_text_tokens_and_cost() -> None:
    usage = {"input": 100, "output": 30, "cacheRead": 1000, "cacheWrite": 20, "cost": {"total": 0.5}}
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "so"}, {"type": "toolCall", "id": "x"}]
    message = {**ANSWER, "content": content, "usage": usage, "responseId": "r-1"}
    told = Usage(input=100, output=30, cache_read=1000, cache_write=20, message="r-1")
    assert said(type="message_end", message=message) == [
        Event(kind=Kind.THINKING, text="hm"),
        Event(kind=Kind.TEXT, text="so"),
        Event(kind=Kind.USAGE, usage=told, cost_added=0.5, context=1120),
    ]
    assert said(type="message_end", message={**message, "role": "user"}) == []


def test_failed_tool_differs_from_a_successful_one() -> None:
    result = {"content": [{"type": "text", "text": "no such file"}]}
    line = {"type": "tool_execution_end", "toolCallId": "c", "toolName": "read", "result": result}
    oks = [event.ok for is_error in (True, False, None) for event in said(**line, isError=is_error)]
    assert oks == [False, True, False]


def test_missing_login_is_explained_from_stderr() -> None:
    limit = PI.explain(1, "No API key found for anthropic.\n\nUse /login to log into a provider.\n")
    assert limit is not None and limit.limit is not None and limit.limit.kind == "auth"
    assert PI.explain(1, 'Error: Model "x" not found.\n') == Event(kind=Kind.ERROR, text='Error: Model "x" not found.')
    assert PI.explain(0, "No API key found, use /login") is None and PI.explain(1, "") is None


def extended(tmp_path: Path, program: str) -> str:
    """Return the output of a program that uses pi's extension and a pi with a known model."""
    node = shutil.which("node")
    require(node, "pi's extension (needs the program node)")
    (source,) = PI.command(an_order(folder="/runs/1")).files.values()
    (tmp_path / "extension.mjs").write_text(source)
    (tmp_path / "program.mjs").write_text(
        "import extend from './extension.mjs';\n"
        "const heard = {};\n"
        "const print = (said) => process.stdout.write(JSON.stringify(said) + '\\n');\n"
        "extend({ on: (name, hear) => { heard[name] = hear; } });\n" + program
    )
    done = subprocess.run(
        [str(node), str(tmp_path / "program.mjs")], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_extension_drops_repeated_updates(tmp_path: Path) -> None:
    lines = lines_of("pi", "ok-without-extension")
    printed = extended(tmp_path, f"for (const said of {json.dumps([json.loads(line) for line in lines])}) print(said);")
    kinds = [json.loads(line)["type"] for line in printed.splitlines()]
    assert kinds == [
        *("session", "agent_start", "fleet_alive", "message_end", "tool_execution_start", "tool_execution_end"),
        *("message_end", "agent_end"),
    ]
    whole = [event for line in lines for event in PI.parse(line)]
    assert [event for line in printed.splitlines() for event in PI.parse(line)] == whole


def test_extension_keeps_only_the_last_of_all_messages(tmp_path: Path) -> None:
    messages = [{**ANSWER, "content": [{"type": "text", "text": "x" * 1000}]}] * 100 + [ANSWER]
    printed = extended(tmp_path, f"print({json.dumps({'type': 'agent_end', 'messages': messages})});")
    assert len(printed) < 1000
    assert PI.parse(printed) == [Event(kind=Kind.RESULT, ok=True, text="done")]


def test_extension_prints_a_heartbeat_every_few_seconds(tmp_path: Path) -> None:
    printed = extended(
        tmp_path,
        "let now = 1e9; Date.now = () => now;\n"
        "for (let step = 0; step < 12; step++) { print({ type: 'message_update', message: {} }); now += 1000; }",
    )
    assert printed == '{"type":"fleet_alive"}\n' * 3
    assert PI.parse(printed) == []


def test_extension_reports_the_context_window(tmp_path: Path) -> None:
    printed = extended(tmp_path, "heard.session_start({}, { model: { id: 'm-1', contextWindow: 128000 } });")
    assert PI.parse(printed) == [Event(kind=Kind.SESSION_STARTED, data={"model": "m-1"}, window=128_000)]
    unknown = extended(tmp_path, "heard.session_start({}, {});")
    assert PI.parse(unknown) == [Event(kind=Kind.SESSION_STARTED, data={"model": ""})]


def test_extension_disables_waits_of_the_library_within_a_request(tmp_path: Path) -> None:
    printed = extended(
        tmp_path,
        """
        import { createServer } from "node:http";
        const server = createServer((asked, answer) => {
          answer.writeHead(Number(asked.url.slice(1)), { "retry-after": "3600", "x-should-retry": "true" });
          answer.end("slow down");
        });
        server.listen(0, "127.0.0.1", async () => {
          for (const status of [200, 429, 503]) {
            const answer = await fetch(`http://127.0.0.1:${server.address().port}/${status}`);
            print([answer.status, answer.headers.get("x-should-retry"), await answer.text()]);
          }
          server.close();
          server.closeAllConnections();
        });
        """,
    )
    assert [json.loads(line) for line in printed.splitlines()] == [
        [200, "true", "slow down"],
        [429, "false", "slow down"],
        [503, "false", "slow down"],
    ]
