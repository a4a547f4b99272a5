"""The block of ports that an agent gets."""

import socket

import pytest

from fleet.core.errors import FleetError
from fleet.supervisor.run.workplace import choose_block, free_block


def anything(port: int) -> bool:
    return True


def test_first_free_block_is_returned() -> None:
    assert choose_block(20000, 10, (), anything) == 20000
    assert choose_block(20000, 10, range(20000, 20010), anything) == 20010
    assert choose_block(20000, 10, {20009, 20010, 20035}, anything) == 20020


def test_block_is_skipped_when_one_of_its_ports_is_used() -> None:
    assert choose_block(20000, 10, (), lambda port: port not in (20003, 20019)) == 20020


def test_blocks_stay_below_the_ephemeral_ports() -> None:
    assert choose_block(32748, 10, range(32748, 32758), anything) == 32758
    with pytest.raises(FleetError, match="no 10 free ports in a row from 32750 up to 32767"):
        choose_block(32750, 10, {32751}, anything)
    assert choose_block(40000, 10, {40000}, anything) == 40010
    with pytest.raises(FleetError):
        choose_block(65530, 10, (), anything)


def test_listening_port_is_recognized() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert free_block(port, 1, ()) > port
