"""The scripted model itself in all wire formats, without a CLI: its answers, its faults and its records."""

import errno
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from model_server import NEARLY_FULL, Fault, ModelServer, Scenario, Turn, UnfitTurns
from model_server.network import ClosedNetwork

NOTHING: Mapping[str, str] = {}
HELLO = {"role": "user", "content": "hello"}

# For each wire format: the path, a body that offers a shell, and the name of that shell.
ASK: dict[str, tuple[str, dict[str, Any], str]] = {
    "anthropic": ("/v1/messages", {"model": "m", "messages": [HELLO], "tools": [{"name": "Bash"}]}, "Bash"),
    "responses": (
        "/responses",
        {"model": "m", "input": [HELLO], "tools": [{"type": "function", "name": "exec_command"}]},
        "exec_command",
    ),
    "chat": (
        "/chat/completions",
        {"model": "m", "messages": [HELLO], "tools": [{"type": "function", "function": {"name": "bash"}}]},
        "bash",
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
            "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}],
        },
        "run_shell_command",
    ),
}

# The form of a fault in each format: its status, and a word in its body or its headers.
SAID = {
    Fault.RATE_LIMITED: {
        "anthropic": (429, "rate_limit_error"),
        "responses": (429, "rate_limit_exceeded"),
        "chat": (429, "rate_limit_exceeded"),
        "gemini": (429, '"retryDelay": "7s"'),
    },
    Fault.LIMIT_REACHED: {
        "anthropic": (429, "anthropic-ratelimit-unified-status: rejected"),
        "responses": (429, "usage_limit_reached"),
        "chat": (429, "insufficient_quota"),
        "gemini": (429, "PerDay"),
    },
    Fault.UNAUTHORIZED: {
        "anthropic": (401, "authentication_error"),
        "responses": (401, "invalid_api_key"),
        "chat": (401, "invalid_api_key"),
        "gemini": (401, "UNAUTHENTICATED"),
    },
    Fault.CONTEXT_FULL: {
        "anthropic": (400, "prompt is too long"),
        "responses": (400, "context_length_exceeded"),
        "chat": (400, "context_length_exceeded"),
        "gemini": (400, "exceeds the maximum number of tokens"),
    },
    Fault.SERVER_ERROR: {
        "anthropic": (500, "api_error"),
        "responses": (500, "server_error"),
        "chat": (500, "server_error"),
        "gemini": (500, "INTERNAL"),
    },
    Fault.OVERLOADED: {
        "anthropic": (529, "overloaded_error"),
        "responses": (503, "overloaded"),
        "chat": (503, "overloaded"),
        "gemini": (503, "UNAVAILABLE"),
    },
}

each_wire = pytest.mark.parametrize("wire", ASK)


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """Yield a server that the tests themselves can reach."""
    with ModelServer() as model:
        yield model


class Answer:
    """The part of an answer that arrived."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.is_whole = True
        try:
            self.body = response.read().decode()
        except (HTTPException, OSError) as error:
            self.is_whole = False
            self.body = bytes(getattr(error, "partial", b"")).decode()

    def __str__(self) -> str:
        return "\n".join([*(f"{name}: {value}" for name, value in self.headers.items()), self.body])


def ask(scenario: Scenario, wire: str, *, streamed: bool = False, seconds: float = 30, **changes: Any) -> Answer:
    """Ask for the next turn in a wire format."""
    path, body, _ = ASK[wire]
    if streamed:
        path = path.replace(":generate", ":streamGenerate")
        changes["stream"] = True
    return post(scenario.url(wire) + path, json.dumps(body | changes).encode(), seconds=seconds)


def post(url: str, body: bytes, headers: Mapping[str, str] = NOTHING, *, seconds: float = 30) -> Answer:
    """Send any request to any URL."""
    place, _, path = url.removeprefix("http://").partition("/")
    connection = HTTPConnection(place, timeout=seconds)
    try:
        connection.request("POST", f"/{path}", body, dict(headers))
        return Answer(connection.getresponse())
    finally:
        connection.close()


@each_wire
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_turn_contains_text_a_shell_call_and_token_counts(wire: str, streamed: bool, model: ModelServer) -> None:
    scenario = model.scenario([Turn(text="well then", shell="date", usage=NEARLY_FULL)])
    answer = ask(scenario, wire, streamed=streamed)
    assert (answer.status, answer.is_whole) == (200, True)
    assert answer.headers["content-type"] == ("text/event-stream" if streamed else "application/json")
    for words in ("well", "then", "date", ASK[wire][2], str(NEARLY_FULL.cached)):
        assert words in answer.body
    [request] = scenario.requests()
    assert (request.wire, request.turn, request.said, request.model) == (wire, 0, ("hello",), "m")


@each_wire
@pytest.mark.parametrize("fault", SAID)
def test_fault_is_sent_in_its_wire_format(wire: str, fault: Fault, model: ModelServer) -> None:
    status, words = SAID[fault][wire]
    answer = ask(model.scenario([Turn(fault=fault, retry_after=7)]), wire)
    assert answer.status == status
    assert words in str(answer)
    if fault is Fault.RATE_LIMITED:
        assert answer.headers["retry-after"] == "7"


@each_wire
def test_cut_answer_ends_in_the_middle(wire: str, model: ModelServer) -> None:
    scenario = model.scenario([Turn(text="well then", fault=Fault.CUT), Turn(text="well then")])
    cut, unharmed = (ask(scenario, wire, streamed=True) for _ in range(2))
    assert (cut.is_whole, unharmed.is_whole) == (False, True)
    assert 0 < len(cut.body) < len(unharmed.body)


@each_wire
def test_stalled_answer_begins_and_stops(wire: str, model: ModelServer) -> None:
    answer = ask(model.scenario([Turn(text="well then", fault=Fault.STALL)]), wire, streamed=True, seconds=0.5)
    assert (answer.status, answer.is_whole) == (200, False)


@each_wire
def test_hanging_model_sends_nothing_and_records_the_request(wire: str, model: ModelServer) -> None:
    scenario = model.scenario([Turn(fault=Fault.HANG)])
    with pytest.raises(TimeoutError):
        ask(scenario, wire, seconds=0.5)
    assert [request.status for request in scenario.wait_for(1, seconds=0)] == [0]
    with pytest.raises(TimeoutError):
        scenario.wait_for(2, seconds=0.1)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"content-length: 99999999999\r\n\r\n", b"413"),
        (b"content-length: -1\r\n\r\n", b"413"),
        (b"transfer-encoding: chunked\r\n\r\nffffffffffff\r\n", b"413"),
        (b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"400"),
    ],
)
def test_body_is_read_in_chunks_and_bounded(head: bytes, status: bytes, model: ModelServer) -> None:
    path = f"/s/{model.scenario([Turn(text='first')]).id}/v1/chat/completions".encode()
    with socket.create_connection(("127.0.0.1", int(model.url.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(b"POST %s HTTP/1.1\r\n%s" % (path, head))
        assert connection.recv(1000).split()[1] == status


def test_closing_the_server_releases_waiting_clients() -> None:
    with ModelServer() as model:
        scenario = model.scenario([Turn(fault=Fault.HANG)])
        waiting = socket.create_connection(("127.0.0.1", int(model.url.rpartition(":")[2])), timeout=30)
        body = json.dumps(ASK["chat"][1]).encode()
        path = f"/s/{scenario.id}/v1/chat/completions"
        waiting.sendall(b"POST %s HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s" % (path.encode(), len(body), body))
        scenario.wait_for(1)
    with waiting:
        assert waiting.recv(1) == b""


@each_wire
def test_request_without_tools_takes_no_turn(wire: str, model: ModelServer) -> None:
    scenario = model.scenario([Turn(shell="date"), Turn(text="done")])
    assert "side call" in ask(scenario, wire, tools=[]).body
    assert "date" in ask(scenario, wire).body
    assert [request.turn for request in scenario.requests()] == [None, 0]


@each_wire
def test_turn_fails_when_its_tool_is_not_offered(wire: str, model: ModelServer) -> None:
    answer = ask(model.scenario([Turn(tool="teleport")]), wire)
    assert answer.status == 400
    assert f"the turn wants teleport, and the request offers only: {ASK[wire][2]}" in answer.body


@each_wire
def test_tool_call_takes_arguments_from_the_request(wire: str, model: ModelServer) -> None:
    call = Turn(tool=ASK[wire][2], arguments={"parts": []}, heard={"word": "h(ell)o", "parts": "(he|lo)"})
    body = ask(model.scenario([call]), wire).body.replace("\\", "")
    assert '"parts": ["he", "lo"], "word": "ell"' in body
    answer = ask(model.scenario([call._replace(heard={"word": "(farewell)"})]), wire)
    assert (answer.status, "the turn wants word as (farewell)" in answer.body) == (400, True)


def test_tools_of_a_server_are_offered_to_codex_once_they_are_found(model: ModelServer) -> None:
    scenario = model.scenario([Turn(tool="tool_search", arguments={"query": "health"}), Turn(tool="mcp__fleet__check")])
    found = {"type": "namespace", "name": "mcp__fleet", "tools": [{"type": "function", "name": "check"}]}
    tools = [{"type": "tool_search", "execution": "client"}]
    searched = ask(scenario, "responses", tools=tools).body
    assert '"type": "tool_search_call"' in searched and '"arguments": {"query": "health"}' in searched
    later = [HELLO, {"type": "tool_search_call"}, {"type": "tool_search_output", "tools": [found]}]
    called = ask(scenario, "responses", tools=tools, input=later).body
    assert '"namespace": "mcp__fleet"' in called and '"name": "check"' in called


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"messages": 7}', b"[" * 100_000, b"\xff"])
@each_wire
def test_malformed_body_is_refused_and_takes_no_turn(wire: str, body: bytes, model: ModelServer) -> None:
    scenario = model.scenario([Turn(text="first")])
    answer = post(scenario.url(wire) + ASK[wire][0], body)
    assert answer.status == 400
    assert f"not a request of {wire}" in answer.body
    assert scenario.requests()[0].turn is None


def test_scenarios_are_independent(model: ModelServer) -> None:
    one, two = (model.scenario([Turn(text=f"{name} first"), Turn(text=f"{name} second")]) for name in ("one", "two"))
    said = [ask(scenario, "chat").body for scenario in (one, two, one, two, two)]
    for body, words in zip(said, ("one first", "two first", "one second", "two second", "two second"), strict=True):
        assert words in body
    assert (len(one.requests()), len(two.requests())) == (2, 3)


@pytest.mark.parametrize("header", ["x-api-key", "x-goog-api-key", "Authorization"])
def test_scenario_can_be_chosen_by_key_and_the_key_is_not_kept(header: str, model: ModelServer) -> None:
    model.scenario([Turn(text="another's")])
    scenario = model.scenario([Turn(text="mine")])
    key = f"Bearer {scenario.key}" if header == "Authorization" else scenario.key
    url, body = f"{model.url}/v1/chat/completions?key={scenario.key}", json.dumps(ASK["chat"][1]).encode()
    assert "mine" in post(url, body, {header: key, "X-Kept": "yes"}).body
    [request] = scenario.requests()
    assert request.headers["x-kept"] == "yes"
    assert scenario.key not in str(request)


def test_request_without_a_scenario_is_refused(model: ModelServer) -> None:
    model.scenario([Turn(text="somebody's")])
    body = json.dumps(ASK["chat"][1]).encode()
    for url in (f"{model.url}/s/nobody/v1/chat/completions", f"{model.url}/v1/chat/completions"):
        assert post(url, body).status == 404
    assert [(request.scenario, request.turn) for request in model.log.all()] == [("", None)] * 2


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/messages/count_tokens", '"input_tokens": 1234'),
        ("/v1beta/models/m:countTokens", '"totalTokens": 1234'),
        ("/v1/models", '"id": "scripted"'),
    ],
)
def test_side_requests_of_clis_take_no_turn(path: str, words: str, model: ModelServer) -> None:
    scenario = model.scenario([Turn(text="first")])
    assert words in post(f"{model.url}/s/{scenario.id}{path}", b"{}").body
    assert (len(scenario.requests()), scenario.turns()) == (1, [])


def test_conditional_turn_is_sent_when_its_words_occur(model: ModelServer) -> None:
    scenario = model.scenario([Turn(text="working"), Turn(text="as you wish", when="be quick")])
    steered = [HELLO, {"role": "assistant", "content": "working"}, {"role": "user", "content": "please be quick"}]
    said = [ask(scenario, "chat"), ask(scenario, "chat"), ask(scenario, "chat", messages=steered)]
    assert ["as you wish" in answer.body for answer in said] == [False, False, True]
    assert scenario.requests()[-1].said == ("please be quick",)
    assert scenario.requests()[-1].holds("be quick")


def test_each_conversation_can_have_its_own_turns(model: ModelServer) -> None:
    turns = [Turn(text="first"), Turn(text="second")]
    body = json.dumps(ASK["chat"][1]).encode()
    for per_conversation, expected in ((True, ["first", "first", "second"]), (False, ["first", "second", "second"])):
        scenario = model.scenario(turns, per_conversation=per_conversation)
        url = scenario.url("chat") + ASK["chat"][0]
        said = [post(url, body, {"x-session-affinity": name}).body for name in ("a", "b", "a")]
        assert [words for words, text in zip(expected, said, strict=True) if words in text] == expected


def test_unnamed_conversation_is_identified_by_its_first_text(model: ModelServer) -> None:
    scenario = model.scenario([Turn(text="first"), Turn(text="second")], per_conversation=True)
    other = [{"role": "user", "content": "good day"}]
    said = [ask(scenario, "chat").body, ask(scenario, "chat", messages=other).body, ask(scenario, "chat").body]
    assert ["first" in body for body in said] == [True, True, False]


@pytest.mark.parametrize(
    ("turns", "complaint"),
    [
        ([], "a scenario needs a turn"),
        ([{"text": "x", "when": "y"}], "the first turn cannot wait"),
        ([{"txet": "x"}], "a turn has no txet"),
        ([{"fault": "flood"}], "'flood' is not a valid Fault"),
    ],
)
def test_turns_that_no_conversation_can_follow_are_refused(
    turns: list[dict[str, str]], complaint: str, model: ModelServer
) -> None:
    with pytest.raises(UnfitTurns, match=complaint):
        model.scenario(turns)


def test_lock_of_the_clis_names_no_host_and_hashes_each_package() -> None:
    text = (Path(__file__).parent / "clis" / "package-lock.json").read_text("utf-8")
    packages = json.loads(text)["packages"]
    assert "://" not in text
    assert [path for path, package in packages.items() if path and not package.get("integrity")] == []


def test_model_server_program_serves_a_scenario_file_and_prints_requests(tmp_path: Path) -> None:
    file = tmp_path / "scenarios.json"
    file.write_text('{"ok": [{"fault": "rate_limited", "retry_after": 3}]}')
    argv = [sys.executable, "-m", "model_server", str(file)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
    assert process.stdout is not None
    try:
        places = json.loads(process.stdout.readline())["ok"]
        answer = post(places["chat"] + ASK["chat"][0], json.dumps(ASK["chat"][1]).encode())
        told = json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert (answer.status, answer.headers["retry-after"]) == (429, "3")
    assert (told["path"], told["status"], told["said"]) == ("/s/ok-1/v1/chat/completions", 429, ["hello"])


# Connects to the model server, then to the outside world (an address that belongs to nobody).
KNOCK = """
import socket, sys
for host, port in (("127.0.0.1", int(sys.argv[1])), ("192.0.2.1", 80)):
    try:
        socket.create_connection((host, port), timeout=5).close()
        print(0)
    except OSError as error:
        print(error.errno)
"""


def test_nothing_leaves_the_closed_network(server: ModelServer, network: ClosedNetwork) -> None:
    argv = network.enter(sys.executable, "-c", KNOCK, server.url.rpartition(":")[2])
    said = subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout.split()
    assert said == ["0", str(errno.ENETUNREACH)]
