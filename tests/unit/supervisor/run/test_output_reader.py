"""Output of agents, read line by line in little memory, whatever its content."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.supervisor.run.output_reader import KEPT, LONGEST, LineReader

MIB = 1024 * 1024


def texts(reader: LineReader) -> list[str]:
    return [line.text for line in reader.lines()]


def test_missing_file_has_no_lines(tmp_path: Path) -> None:
    reader = LineReader(str(tmp_path / "out"))
    assert (texts(reader), reader.read(), reader.behind, reader.last()) == ([], [], 0, None)
    (tmp_path / "out").write_text("now\n")
    assert texts(reader) == ["now"]


def test_only_whole_lines_are_returned_and_each_once(tmp_path: Path) -> None:
    path = tmp_path / "out"
    reader = LineReader(str(path))
    path.write_bytes(b"one\ntw")
    assert texts(reader) == ["one"]
    assert (texts(reader), reader.offset) == ([], 4)
    with path.open("ab") as file:
        file.write(b"o\n\nthree")
    assert texts(reader) == ["two", ""]
    assert reader.offset == 9
    assert reader.last() == ("three", False, 14)
    assert (reader.last(), reader.offset) == (None, 14)


def test_new_reader_continues_at_the_given_offset(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1000)) + b"half")
    read: list[str] = []
    offset = 0
    while True:
        reader = LineReader(str(path), offset)
        lines = reader.read(lines=7)
        if not lines:
            break
        read += [line.text for line in lines]
        assert lines[-1].end == reader.offset
        offset = reader.offset
    assert read == [f"line {number}" for number in range(1000)]


def test_remaining_lines_are_returned_after_an_interrupted_iteration(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"a\nb\nc\nd")
    reader = LineReader(str(path))
    lines = reader.lines()
    assert next(lines).text == "a"
    lines.close()
    assert reader.offset == 2
    assert texts(reader) == ["b", "c"]


def test_invalid_bytes_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"a\0b\0\n\xff\xfe \xf0\x9f\n\x1b]0;title\x07\ncarriage\r\n")
    assert texts(LineReader(str(path))) == ["ab", "�� �", "\x1b]0;title\x07", "carriage"]


def test_overlong_line_is_cut_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    long = LONGEST + 1
    path.write_bytes(b"x" * LONGEST + b"\n" + b"y" * long + b"\nnext\n" + b"z" * (3 * MIB))
    reader = LineReader(str(path))
    first, second, third = reader.lines(most=64 * MIB)
    assert (len(first.text), first.truncated) == (LONGEST, False)
    assert (second.text, second.truncated) == ("y" * KEPT, True)
    assert third.text == "next"
    unended = reader.last()
    assert unended is not None
    assert (len(unended.text), unended.truncated) == (KEPT, True)


def test_one_call_reads_no_more_than_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"x" * (10 * MIB) + b"\nend\n")
    reader, calls = LineReader(str(path)), 0
    read: list[str] = []
    while reader.behind:
        before = reader.behind
        read += [line.text[:3] for line in reader.read(most=MIB)]
        assert before - reader.behind <= MIB
        calls += 1
    assert (calls, read) == (11, ["xxx", "end"])


def test_rest_returns_all_remaining_lines_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"a\nb\nun" + b"x" * (5 * MIB))
    (tmp_path / "out.tail").write_bytes(b"nded\nlast\nword")
    reader = LineReader(str(tmp_path / "out"))
    rest = [line.text[:5] for line in reader.rest(str(tmp_path / "out.tail"))]
    assert rest == ["a", "b", "unxxx", "nded", "last", "word"]
    assert list(reader.rest(str(tmp_path / "none"))) == []


@pytest.mark.parametrize("tail", ['": 1}\n{"b": 2}\n', '": 1}\n{"b": 2}', '": 1}'])
def test_line_split_by_the_output_cap_is_joined(tmp_path: Path, tail: str) -> None:
    (tmp_path / "out").write_text('{}\n{"a')
    (tmp_path / "out.tail").write_text(tail)
    rest = [line.text for line in LineReader(str(tmp_path / "out")).rest(str(tmp_path / "out.tail"))]
    assert "{}" in rest
    assert ('{"b": 2}' in rest) == ("b" in tail)
    assert '{"a": 1}' in rest


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_file_that_is_not_regular_is_refused_without_blocking(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "out"
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError):
        texts(LineReader(str(path)))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 50), st.integers(1, 5))
def test_any_bytes_in_any_chunks_give_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], most: int, lines: int
) -> None:
    path, data = tmp_path_factory.getbasetemp() / "portions", b"".join(parts)
    path.write_bytes(data)
    reader, read = LineReader(str(path)), list[str]()
    while reader.behind:
        read += [line.text for line in reader.read(most, lines=lines)]
    pieces = data.split(b"\n")
    assert read == [line.replace(b"\0", b"").decode("utf-8", "replace").rstrip("\r") for line in pieces[:-1]]
    assert reader.offset == len(data) - len(pieces[-1])


GROWTH = """
import resource, sys
from fleet.supervisor.run.output_reader import LineReader
reader = LineReader(sys.argv[1])
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before, count = peak(), 0
while reader.behind:
    for line in reader.read():
        count += 1
print(peak() - before, count, line.text)
"""


def growth(path: Path) -> tuple[int, int, str]:
    done = subprocess.run([sys.executable, "-c", GROWTH, str(path)], capture_output=True, text=True, check=True)
    kib, count, last = done.stdout.split()
    return int(kib), int(count), last


def test_line_of_a_hundred_megabytes_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with path.open("wb") as file:
        for _ in range(100):
            file.write(b"x" * MIB)
        file.write(b"\nend\n")
    kib, count, last = growth(path)
    assert (count, last) == (2, "end")
    assert kib < 4 * 1024


def test_a_million_tiny_lines_take_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"{}\n" * 1_000_000)
    kib, count, _ = growth(path)
    assert count == 1_000_000
    assert kib < 4 * 1024
