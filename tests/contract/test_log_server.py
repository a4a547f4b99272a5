"""Hosts ask each other for the events of runs: only hosts with the key get them, and none can block the server."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from contract.store_builders import a_run, next_claim
from fleet.actions.control.fetch import HostAway, ask
from fleet.assembly import open_cluster, open_fleet, open_launcher
from fleet.core.event import Event, Kind
from fleet.core.host import HOSTS_KEY
from fleet.home import Home
from fleet.hosts.log_server import MOST, MOST_AT_ONCE, LogRequest, LogServer, answer_proof, hosts_key, line
from fleet.supervisor.agent_launchers import AgentLaunchers
from fleet.supervisor.context import Context
from fleet.supervisor.store_calls import StoreCalls
from fleet.supervisor.task_folder import TaskFolder

KEY = "k" * 64
SECONDS = 1.0


class Place:
    """A host with its own run, a run of another host, and a log server in a separate thread."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(str(folder / "home"))
        self.fleet = open_fleet(self.home, make=True)
        self.context = Context(
            self.home, StoreCalls(self.fleet.store), AgentLaunchers(open_launcher()), owner="host", cluster=open_cluster
        )
        self.run, self.foreign = self._begun("host"), self._begun("elsewhere")
        self.folder = TaskFolder(self.home, self.run.task_id)
        self.folder.make()
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = LogServer(self.context, KEY, seconds=SECONDS)
        self.address = asyncio.run_coroutine_threadsafe(self._server.open("127.0.0.1:0"), self._loop).result(10)

    def _begun(self, owner: str) -> Any:
        self.fleet.store.tasks.add(a_task())
        claim = next_claim(self.fleet.store, owner)
        return self.fleet.store.runs.begin(claim, a_run(task_id=claim.task.id, epoch=claim.epoch, owner=owner))

    def tell(self, *texts: str) -> None:
        self.folder.append_events([Event(kind=Kind.TEXT, text=text) for text in texts], self.fleet.store.now())

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        link = socket.create_connection((host, int(port)), timeout=60)
        link.settimeout(10)
        return link

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()
        self.context.close()
        self.fleet.store.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def texts(data: bytes) -> list[str]:
    return [json.loads(row)["text"] for row in data.splitlines()]


def heard(link: socket.socket) -> bytes:
    """Return all data until the other side closes the connection."""
    data = b""
    try:
        while part := link.recv(1 << 16):
            data += part
    except ConnectionResetError:
        pass
    return data


def test_log_server_sends_the_events_of_a_run_to_hosts_with_the_key(place: Place) -> None:
    place.tell("one", "two")
    assert texts(ask(place.address, KEY, place.run.id)) == ["one", "two"]
    place.tell(*(f"{number} {'x' * 1000}" for number in range(400)))
    last = ask(place.address, KEY, place.run.id, offset=-10_000)
    assert len(last) <= 10_000 and [text.split()[0] for text in texts(last)][-1] == "399"
    first = ask(place.address, KEY, place.run.id, offset=0)
    assert texts(first)[:2] == ["one", "two"]


def test_long_log_is_sent_in_parts_of_whole_lines(place: Place) -> None:
    place.tell(*(f"{number} {'x' * 10_000}" for number in range(150)))
    offset, found = 0, []
    while part := place.folder.events_part(offset, MOST):
        found += texts(part[0])
        if not part[0]:
            break
        assert len(part[0]) <= MOST
        offset = part[1]
    assert [text.split()[0] for text in found] == [str(number) for number in range(150)]
    assert place.folder.events_part(offset + 10**9, MOST)[0].startswith(b"{")  # a new file is read from its beginning


def test_log_server_sends_nothing_about_foreign_or_unknown_runs(place: Place) -> None:
    place.tell("one")
    foreign = TaskFolder(place.home, place.foreign.task_id)
    foreign.make()
    foreign.append_events([Event(kind=Kind.TEXT, text="not ours to tell")], place.fleet.store.now())
    for run in (place.foreign.id, "fleet-none/1", "../../etc/passwd/1", "", "a\0b", "x" * 1000):
        assert ask(place.address, KEY, run) == b""


def test_log_server_reads_no_link_or_pipe_in_place_of_the_log(place: Place, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"text": "secret"}\n')
    record = Path(place.folder.path, "events.jsonl")
    record.unlink(missing_ok=True)
    record.symlink_to(tmp_path / "secret")
    assert ask(place.address, KEY, place.run.id) == b""
    record.unlink()
    os.mkfifo(record)
    assert ask(place.address, KEY, place.run.id) == b""


def test_log_server_sends_nothing_without_the_key(place: Place) -> None:
    place.tell("one")
    with pytest.raises(HostAway):
        ask(place.address, "wrong" * 12, place.run.id)


def test_log_server_refuses_a_replayed_request(place: Place) -> None:
    place.tell("one")
    with closing(place.connect()) as first:
        challenge = json.loads(first.recv(4096))["challenge"]
        request = LogRequest(run=place.run.id, offset=0, most=1000, nonce="n" * 16)
        said = line({**request.as_dict(), "proof": request.proof(KEY, challenge)})
        first.sendall(said)
        assert b"one" in heard(first)
    with closing(place.connect()) as second:
        assert json.loads(second.recv(4096))["challenge"] != challenge
        second.sendall(said)
        assert heard(second) == b""


GARBAGE = (
    b"\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\0" * 5000,
    b"[" * 4000 + b"\n",
    b'{"run": 1}\n',
    b'{"run": "x", "offset": 0, "most": 99999999, "nonce": "nnnnnnnnnnnnnnnn", "proof": "x"}\n',
    b'{"run": "x", "offset": true, "most": 1, "nonce": "nnnnnnnnnnnnnnnn", "proof": "x"}\n',
    b'{"run": "x", "offset": -99999999, "most": 1, "nonce": "nnnnnnnnnnnnnnnn", "proof": "x"}\n',
    b'{"run": "x", "offset": 0, "most": 1, "nonce": "nnnnnnnnnnnnnnnn", "proof": 5}\n',
    '{"run": "x", "offset": 0, "most": 1, "nonce": "nnnnnnnnnnnnnnnn", "proof": "é"}\n'.encode(),
    b"x" * 1_000_000,
)


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_ends_only_its_own_connection(place: Place, data: bytes) -> None:
    place.tell("one")
    with closing(place.connect()) as link:
        link.recv(4096)
        with suppress(ConnectionResetError, BrokenPipeError):
            link.sendall(data)
        assert heard(link) == b""
    assert texts(ask(place.address, KEY, place.run.id)) == ["one"]


def test_silent_connections_are_closed_and_block_no_other(place: Place) -> None:
    place.tell("one")
    links = [place.connect() for _ in range(MOST_AT_ONCE)]
    try:
        assert all(link.recv(4096).startswith(b'{"fleet":1') for link in links)
        for _ in range(3):
            assert texts(ask(place.address, KEY, place.run.id)) == ["one"]
        assert heard(links[0]) == b"", "the oldest makes room"
        assert all(heard(link) == b"" for link in links[1:]), "each is cut off after its time"
        assert texts(ask(place.address, KEY, place.run.id)) == ["one"]
    finally:
        for link in links:
            link.close()


@contextmanager
def pretender(answer: Callable[[dict[str, Any]], bytes]) -> Iterator[str]:
    """Serve a port without knowing the key. Yield the address."""
    with closing(socket.socket()) as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)

        def serve() -> None:
            link, _ = server.accept()
            with closing(link):
                link.sendall(line({"fleet": 1, "challenge": "c" * 64}))
                link.sendall(answer(json.loads(link.recv(4096))))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


def made_up(said: dict[str, Any]) -> bytes:
    body = b'{"kind": "assistant_text", "text": "all is well"}\n'
    proof = answer_proof("guessed", "c" * 64, said["nonce"], 0, body)
    return line({"ok": True, "next": 0, "size": len(body), "proof": proof}) + body


@pytest.mark.parametrize(
    "answer",
    [
        made_up,
        lambda _: b"",
        lambda _: b"x" * 100_000,
        lambda _: line({"ok": True, "next": 0, "size": 10**12, "proof": ""}),
        lambda _: line({"ok": True, "next": 0, "size": -1, "proof": ""}),
        lambda _: line({"ok": True}),
        lambda _: b"[]\n",
    ],
)
def test_answer_without_proof_is_refused(answer: Callable[[dict[str, Any]], bytes]) -> None:
    with pretender(answer) as address, pytest.raises(HostAway):
        ask(address, KEY, "fleet-1/1", seconds=2)


def test_unreachable_or_invalid_address_raises_host_away() -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        for address in (f"127.0.0.1:{free.getsockname()[1]}", "127.0.0.1:none", "", "127.0.0.1:99999999"):
            with pytest.raises(HostAway, match="does not answer"):
                ask(address, KEY, "fleet-1/1", seconds=1)


def test_hosts_key_is_created_once(place: Place) -> None:
    key = hosts_key(place.fleet.store)
    assert (len(key), hosts_key(place.fleet.store)) == (64, key)
    assert place.fleet.store.config.all()[HOSTS_KEY] == key


def test_log_server_names_an_address_that_it_cannot_use(place: Place) -> None:
    async def opened(where: str) -> str:
        return await LogServer(place.context, KEY).open(where)

    for where in (place.address, "127.0.0.1:99999", "host.invalid:1"):
        with pytest.raises(Exception, match=r"cannot answer other hosts at"):
            asyncio.run(opened(where))
