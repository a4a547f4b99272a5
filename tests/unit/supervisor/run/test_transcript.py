"""The session file: read when the stream reports less, and a sign of life."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from fleet.coders.base import Coder
from fleet.core.event import Event, Kind
from fleet.supervisor.run.output_reader import Transcript


class Writing(Coder):
    """A coder that keeps its sessions below $PLACE."""

    name = "writing"

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return a pattern that matches one file per session."""
        return f"{env['PLACE']}/*-{session}.jsonl"

    def parse_transcript(self, line: str) -> Iterable[Event]:
        """Return the context size in a line."""
        return [Event(kind=Kind.USAGE, context=json.loads(line)["context"])]


def line(context: int) -> str:
    return json.dumps({"context": context}) + "\n"


def transcript(place: Path, offset: int | None = 0) -> Transcript:
    return Transcript(Writing(), "/w", {"PLACE": str(place)}, offset)


def test_transcript_is_read_from_the_last_offset_and_growth_is_noticed(tmp_path: Path) -> None:
    found = transcript(tmp_path)
    assert found.look("s") == ([], False)
    assert found.look("") == ([], False)
    file = tmp_path / "2026-s.jsonl"
    file.write_text(line(5))
    assert [event.context for event in found.look("s")[0]] == [5]
    assert found.look("s") == ([], False)
    with file.open("a") as more:
        more.write(line(7) + '{"cont')
    events, grew = found.look("s")
    assert ([event.context for event in events], grew) == ([7], True)
    assert found.offset == len(line(5) + line(7))
    again = transcript(tmp_path, found.offset)
    with file.open("a") as more:
        more.write('ext": 9}\n')
    assert [event.context for event in again.look("s")[0]] == [9]


def test_long_transcript_is_read_in_parts_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "2026-s.jsonl").write_text("".join(line(number) for number in range(1, 501)) + '{"cont')
    found = transcript(tmp_path)
    parts = [found.look("s")[0]]
    while found.behind:
        parts.append(found.look("s")[0])
    assert len(parts) > 1
    assert [event.context for part in parts for event in part] == list(range(1, 501))


def test_earlier_events_of_a_resumed_session_are_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "2026-s.jsonl").write_text(line(5))
    found = transcript(tmp_path, None)
    assert found.look("s")[0] == []
    with (tmp_path / "2026-s.jsonl").open("a") as more:
        more.write(line(6))
    assert [event.context for event in found.look("s")[0]] == [6]


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(line(5))
    (tmp_path / "x-s.jsonl").symlink_to(tmp_path / "secret")
    assert transcript(tmp_path).look("s") == ([], False)
