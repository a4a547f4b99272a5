"""Output of agents through the shim: caps and tails, floods, noise, and a full disk."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.agents.headless import HeadlessLauncher
from fleet.core.errors import FleetError
from launching import asynchronous, read, scripted, soon, until
from needs import require

MIB = 1024 * 1024


@pytest.fixture(params=["alone", "starter"])
def launcher(request: pytest.FixtureRequest) -> HeadlessLauncher:
    return HeadlessLauncher(lasting=request.param == "starter")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "run")


@asynchronous
async def test_output_below_the_cap_is_completely_in_the_file(launcher: HeadlessLauncher, folder: str) -> None:
    ended = await soon((await launcher.start(folder, scripted("lines", 200_000))).ended())
    assert ended is not None and not ended.truncated
    assert read(folder, "stdout") == b"".join(b'{"line": %d}\n' % number for number in range(200_000))
    assert not read(folder, "stdout.tail")


@asynchronous
async def test_output_just_beyond_the_cap_is_in_file_and_tail(launcher: HeadlessLauncher, folder: str) -> None:
    whole = b"".join(b'{"line": %d}\n' % number for number in range(10_000))
    ended = await soon((await launcher.start(folder, scripted("lines", 10_000, stdout_cap=1005))).ended())
    assert ended is not None and ended.truncated
    assert len(read(folder, "stdout")) == 1005
    assert read(folder, "stdout") + read(folder, "stdout.tail") == whole


@asynchronous
async def test_last_lines_survive_whole_far_beyond_the_cap(launcher: HeadlessLauncher, folder: str) -> None:
    ended = await soon((await launcher.start(folder, scripted("flood", 20, "lines", stdout_cap=MIB))).ended())
    assert ended is not None and ended.truncated
    assert len(read(folder, "stdout")) == MIB
    tail = read(folder, "stdout.tail")
    assert MIB - 2048 < len(tail) <= MIB
    assert tail.startswith(b"x" * 1023 + b"\n")
    assert tail.endswith(b'\n{"last": true}\n')


@asynchronous
async def test_line_of_100_mb_needs_little_memory_in_the_shim(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("flood", 100, stdout_cap=MIB))
    peak = await _peak_while(agent.ended(), agent.shim_pid)
    assert read(folder, "stdout.tail") == b'{"last": true}\n'  # without the rest of a line whose start is lost
    assert peak < 50 * 1024, f"{peak} KiB"


@asynchronous
async def test_burst_of_a_gigabyte_is_drained(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("flood", 1024, "lines", stdout_cap=8 * MIB))
    ended = await soon(agent.ended())
    assert ended is not None and ended.truncated and ended.status == 0
    assert len(read(folder, "stdout")) == 8 * MIB
    assert read(folder, "stdout.tail").endswith(b'{"last": true}\n')


@asynchronous
async def test_every_byte_is_kept_unchanged(launcher: HeadlessLauncher, folder: str) -> None:
    await soon((await launcher.start(folder, scripted("noise"))).ended())
    noise = b"\0\0" + bytes(range(256)) * 100 + b'\xff\xfe\xc3(\n{"half": \n\x1b[2J\x1b]0;title\x07\n'
    assert read(folder, "stdout") == noise
    assert read(folder, "stderr") == b"\x80\x81\n"


@asynchronous
async def test_agent_that_prints_endlessly_can_be_stopped(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("forever", stdout_cap=MIB))
    await until(lambda: len(read(folder, "stdout")) == MIB)
    await agent.kill_tree()
    ended = await soon(agent.ended())
    assert ended is not None and ended.signal == 9
    assert read(folder, "stdout.tail").endswith(b"again and again\n" * 10)


@asynchronous
async def test_agent_that_does_not_read_fills_only_its_stdin(launcher: HeadlessLauncher, folder: str) -> None:
    agent = await launcher.start(folder, scripted("sleep", 1000, stdin="x" * MIB, keep_stdin=True))
    with pytest.raises(FleetError, match="does not read"):
        for _ in range(20):
            await agent.write("y" * MIB)
    await agent.kill_tree()
    ended = await soon(agent.ended())
    assert ended is not None and ended.signal == 9


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    done = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    require(done, "a small disk (mount as root)")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@asynchronous
async def test_full_disk_stops_neither_the_agent_nor_its_exit_record(
    launcher: HeadlessLauncher, small_disk: Path
) -> None:
    folder = str(small_disk / "run")
    agent = await launcher.start(folder, scripted("flood", 50, "lines"))
    ended = await soon(agent.ended())
    assert ended is not None
    assert (ended.status, ended.truncated) == (0, True)
    assert launcher.last_exit(folder) == ended
    assert 2 * MIB < len(read(folder, "stdout")) <= 4 * MIB


@asynchronous
async def test_output_of_a_full_disk_is_written_when_it_has_room_again(
    launcher: HeadlessLauncher, small_disk: Path
) -> None:
    folder = str(small_disk / "run")
    agent = await launcher.start(folder, scripted("echo", keep_stdin=True))
    await agent.write("before\n")
    await until(lambda: read(folder, "stdout") == b"before\n")
    _fill(small_disk / "filler")
    lines = "".join(f"meanwhile {number}\n" for number in range(20_000))
    await agent.write(lines)
    await asyncio.sleep(0.3)
    assert len(read(folder, "stdout")) < len(lines)
    (small_disk / "filler").unlink()
    await until(lambda: read(folder, "stdout") == f"before\n{lines}".encode())  # although the agent is silent now
    await agent.write("after\n")
    await agent.close_stdin()
    ended = await soon(agent.ended())
    assert ended is not None and (ended.status, ended.truncated) == (0, False)
    assert read(folder, "stdout") == f"before\n{lines}after\n".encode()


@pytest.mark.parametrize("pages", [0, 1, 40])
@asynchronous
async def test_last_line_survives_when_the_disk_is_full_at_the_end(
    launcher: HeadlessLauncher, small_disk: Path, pages: int
) -> None:
    folder = str(small_disk / "run")
    agent = await launcher.start(folder, scripted("echo", keep_stdin=True))
    await agent.write("before\n")
    await until(lambda: read(folder, "stdout") == b"before\n")
    (small_disk / "room").write_bytes(bytes(pages * 4096))
    _fill(small_disk / "filler")
    lines = [f"meanwhile {number} " + "x" * 1000 for number in range(600)]
    await agent.write("".join(f"{line}\n" for line in lines))
    await asyncio.sleep(0.7)  # so that the shim writes nothing for a moment
    (small_disk / "room").unlink()
    await agent.close_stdin()
    ended = await soon(agent.ended())
    assert ended is not None and ended.status == 0
    shown = read(folder, "stdout.tail").decode().splitlines()
    assert shown and shown == lines[-len(shown) :]
    assert read(folder, ".stdout.tail") == read(folder, ".stderr.tail") == b"", "room that was taken for it"


@asynchronous
async def test_no_agent_starts_on_a_full_disk(launcher: HeadlessLauncher, small_disk: Path) -> None:
    _fill(small_disk / "filler")
    folder = str(small_disk / "run")
    with pytest.raises(FleetError, match="No space left"):
        await launcher.start(folder, scripted("end", 0, stdin="x" * 100_000))
    (small_disk / "filler").unlink()
    ended = await soon((await launcher.start(folder, scripted("end", 7))).ended())
    assert ended is not None and ended.status == 7


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass


async def _peak_while(ending: object, pid: int | None) -> int:
    """Return the peak memory of the shim in KiB until its agent ends."""
    peaks = [0]

    def look() -> bool:
        status = read(f"/proc/{pid}", "status").decode()
        peaks.extend(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        return not status or "VmHWM" not in status

    await until(look)
    await soon(ending)  # type: ignore[arg-type]
    return max(peaks)
