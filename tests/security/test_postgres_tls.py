"""A PostgreSQL server on another machine must prove its identity unless the user disables this."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import needs
from campaign.network import Network, can_be_had
from fleet.core.health import HealthState
from fleet.store.postgres.link import check_encryption, choose_parameters, connect, describe
from postgres import Server, server
from program import Program

SECONDS = timedelta(seconds=10)
#: A proxy between host and database that refuses TLS, as the server does on its local socket behind the proxy.
PROXY = """
import select, socket, sys, threading
path, address, ready = sys.argv[1:]
def serve(here):
    there = socket.socket(socket.AF_UNIX)
    there.connect(path)
    while True:
        for each in select.select([here, there], [], [])[0]:
            data = each.recv(65536)
            if not data:
                return here.close() or there.close()
            (there if each is here else here).sendall(data)
gate = socket.create_server((address, 5432))
open(ready, "w").close()
while True:
    threading.Thread(target=serve, args=(gate.accept()[0],), daemon=True).start()
"""


@pytest.fixture
def proxied(fleet: Program, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a database behind a proxy on another machine; `fleet` runs on a machine beside it."""
    needs.require(can_be_had(), "network namespaces")
    database = server().make_database()
    name = database.partition("5432/")[2] or database.partition("@/")[2].partition("?")[0]
    network, ready = Network("proxy", "host"), tmp_path / "ready"
    address, target = network.address("proxy"), f"{server().folder}/.s.PGSQL.5432"
    argv = network.inside("proxy", sys.executable, "-c", PROXY, target, address, str(ready))
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        while not ready.exists():
            assert process.poll() is None
        fleet.argv = network.inside("host", *fleet.argv)
        fleet.forks = False
        yield f"postgresql://fleet@{address}/{name}"
    finally:
        process.kill()
        process.wait()
        network.close()


def test_proxy_that_refuses_tls_is_refused_unless_the_user_allows_it(fleet: Program, proxied: str) -> None:
    refused = fleet("init", "--home", "--queue", "postgresql", FLEET_QUEUE=proxied)
    assert refused.code == 1 and "the encrypted connection failed" in refused.err
    assert "sslmode" in refused.err and "sslrootcert" in refused.err and "10.77" not in refused.err

    fleet.ok("init", "--home", "--queue", "postgresql", FLEET_QUEUE=f"{proxied}?sslmode=prefer")
    assert "no TLS (sslmode=prefer)" in encryption(fleet)
    fleet.ok("config", "set", f"queue={proxied}")
    assert fleet("bd", "ready").code == 1
    assert fleet("bd", "ready", PGSSLMODE="verify-full").code == 1
    assert fleet("bd", "ready", PGSSLMODE="disable").code == 0


def encryption(fleet: Program) -> str:
    found = json.loads(fleet("doctor", "--json").out)
    [line] = [f"{each['state']}: {each['fact']}" for each in found if each["name"] == "encryption"]
    return str(line)


def test_reported_encryption_is_that_of_the_connection(tmp_path: Path) -> None:
    server()  # skips the test if PostgreSQL is missing
    needs.require(shutil.which("openssl"), "openssl")
    made = Server(tcp=True)
    certificate, key = made.folder / "data" / "server.crt", made.folder / "data" / "server.key"
    words = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=db", "-days", "9"]
    name = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", *words, *name, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    if made.user:
        shutil.chown(key, made.user)
    trusted = tmp_path / "ca.crt"
    trusted.write_bytes(certificate.read_bytes())
    with (made.folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write("ssl = on\n")
    made.stop()
    made.start()
    try:
        for query, fact in (
            ("", "TLS; the server is on this machine"),
            ("?sslmode=disable", "no TLS; the server is on this machine"),
            (f"?sslmode=verify-full&sslrootcert={trusted}", "TLS, with the server's certificate and name verified"),
        ):
            with connect(f"{made.url()}{query}", SECONDS) as link:
                assert (check_encryption(link).state, check_encryption(link).fact) == (HealthState.OK, fact)
    finally:
        made.remove()


@pytest.mark.parametrize(
    ("mode", "has_tls", "words"),
    [
        ("prefer", False, "no TLS (sslmode=prefer): the network can read and change tasks"),
        ("require", True, "the server is not verified (sslmode=require): the network"),
        ("verify-ca", True, "but not its name"),
    ],
)
def test_doctor_warns_when_the_network_could_change_data(mode: str, has_tls: bool, words: str) -> None:
    found = describe(mode, has_tls=has_tls, is_here=False)
    assert (found.state, words in found.fact) == (HealthState.WARNING, True), found


@pytest.mark.parametrize(
    ("said", "env", "is_required"),
    [
        ({}, {}, False),
        ({"host": "/run/postgresql"}, {}, False),
        ({"host": "@abstract"}, {}, False),
        ({"host": "127.0.0.1"}, {}, False),
        ({"host": "::1,127.0.0.2"}, {}, False),
        ({"host": "db.example", "hostaddr": "127.0.0.1"}, {}, False),
        ({"host": "db.example"}, {}, True),
        ({"host": "0.0.0.0"}, {}, True),
        ({"host": "localhost.example"}, {}, True),
        ({"host": "127.0.0.1,db.example"}, {}, True),
        ({"host": "/run/postgresql,10.0.0.5"}, {}, True),
        ({"host": "127.0.0.1", "hostaddr": "10.0.0.5"}, {}, True),
        ({"host": "localhost", "hostaddr": "10.0.0.5"}, {}, True),
        ({}, {"PGHOST": "db.example"}, True),
        ({"host": "127.0.0.1"}, {"PGHOSTADDR": "10.0.0.5"}, True),
        ({"service": "tasks"}, {}, True),
        ({"host": "127.0.0.1", "service": "tasks"}, {}, True),
        ({}, {"PGSERVICE": "tasks"}, True),
        ({}, {"PGSERVICE": "secured"}, False),
        ({"host": "db.example", "sslmode": "prefer"}, {}, False),
        ({"host": "db.example"}, {"PGSSLMODE": "disable"}, False),
        ({"host": "db.example"}, {"PGSSLMODE": "prefer"}, False),
    ],
)
def test_remote_server_must_prove_its_identity_by_default(
    said: dict[str, str], env: dict[str, str], is_required: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSERVICE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    services = tmp_path / "services"
    services.write_text("[tasks]\nhost=db.example\n\n[secured]\nhost=db.example\nsslmode=require\n")
    for name, value in {"PGSERVICEFILE": str(services), **env}.items():
        monkeypatch.setenv(name, value)
    assert (choose_parameters(said).get("sslmode") == "verify-full") is is_required


def test_localhost_counts_as_this_machine_only_if_it_resolves_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    found = ["127.0.0.1", "::1"]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (each, 0)) for each in found])
    assert choose_parameters({"host": "localhost", "port": "77"}) == {
        "host": "localhost,localhost",
        "hostaddr": "127.0.0.1,::1",
        "port": "77,77",
    }
    found.append("10.0.0.5")
    assert choose_parameters({"host": "localhost"})["sslmode"] == "verify-full"
