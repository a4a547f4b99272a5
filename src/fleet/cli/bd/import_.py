"""bd import: import a JSONL file, all or nothing."""

from __future__ import annotations

import sys

from fleet.actions.tasks import interchange
from fleet.actions.tasks.jsonl import LONGEST_LINE
from fleet.cli.text import clean
from fleet.core.errors import BadInput, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

    from fleet.actions.tasks.interchange import ImportReport
    from fleet.cli.bd.session import Session

FLAGS = {
    "import_": """
-i --input TEXT | the file to read, instead of the word
--dry-run       | say what would be done, do nothing
--dedup         | pass over what has the title of an open task
--allow-stale   | also what is older than what is here
""",
}


def import_(session: Session) -> int:
    arguments = session.arguments
    names = [*arguments.words, *arguments.many("input")]
    if len(names) != 1:
        raise UsageError(
            "name one file to import" if names else "no file to import was named",
            hint="`bd import FILE`, or `bd import -` to read what is piped in",
        )
    rehearse, source = arguments.flag("dry-run"), "stdin" if names[0] == "-" else names[0]
    with _opened(names[0]) as stream:
        done = _import(session, stream, rehearse=rehearse)
    if done.memories:
        session.warn(f"Passed over {done.memories} memory record(s): fleet keeps none; a task's notes can hold them.")
    if session.json:
        return session.answer(_payload(done, source, rehearsed=rehearse))
    session.warn(_summary(done, source, rehearsed=rehearse))
    _tell(session, done)
    return 0


def _import(session: Session, stream: BinaryIO, *, rehearse: bool) -> ImportReport:
    stale, dedup = session.arguments.flag("allow-stale"), session.arguments.flag("dedup")
    try:
        return interchange.import_lines(
            session.store, _lines(stream), actor=session.actor, allow_stale=stale, dedup=dedup, rehearse=rehearse
        )
    except BadInput as error:
        raise BadInput(f"import failed: {error}", hint=f"nothing was imported. {error.hint}".strip()) from error


def _opened(name: str) -> BinaryIO:
    """Return the file, or a copy of piped input. A transaction must not wait for another program's output."""
    try:
        stream = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: PTH123, SIM115
        if stream.seekable() and name != "-":
            return stream
        import shutil
        import tempfile

        copy = tempfile.TemporaryFile()  # noqa: SIM115
        shutil.copyfileobj(stream, copy, 1024 * 1024)
        copy.seek(0)
    except OSError as error:
        raise BadInput(
            f"cannot read {name}: {error.strerror}", hint="name a file that exists, or - for stdin"
        ) from error
    return copy


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(LONGEST_LINE + 1):
        yield line


def _payload(done: ImportReport, source: str, *, rehearsed: bool) -> dict[str, Any]:
    ids = done.made if rehearsed else done.ids
    more = {
        "ids": ids,
        "updated": len(done.updated),
        "updated_issues": [{"id": key, "changes": changes} for key, changes in done.updated.items()],
        "stale_skipped_ids": done.stale,
        "tie_kept_local_ids": done.ties,
        "skipped_dependencies": done.unlinked,
        "dedup_skipped": done.duplicates,
        "memories": done.memories,
        "dry_run": rehearsed,
    }
    return {
        "source": source,
        "created": len(ids),
        "skipped": len(done.stale),
        **{name: value for name, value in more.items() if value},
    }


def _summary(done: ImportReport, source: str, *, rehearsed: bool) -> str:
    if rehearsed:
        same = len(done.kept) - len(done.updated)
        kinds = f"{len(done.made)} new, {len(done.updated)} updated, {same} unchanged"
        text = f"Would import {len(done.ids)} issues ({kinds}) and {done.memories} memories from {clean(source)}"
    else:
        text = f"Imported {len(done.ids)} issues from {clean(source)}"
    if done.duplicates:
        text += f" ({done.duplicates} duplicates skipped)"
    if done.stale:
        text += f" ({len(done.stale)} stale skipped; use --allow-stale to restore older rows)"
    return text


def _tell(session: Session, done: ImportReport) -> None:
    if done.updated:
        session.warn(f"Updated {len(done.updated)} existing issue(s):")
        session.warn("\n".join(f"  {key}: {changes}" for key, changes in done.updated.items()))
    if done.ties:
        session.warn(
            f"Kept local state for {len(done.ties)} issue(s) with the same updated_at but different content "
            f"(use --allow-stale to overwrite): {', '.join(done.ties)}"
        )
    for skipped in done.unlinked:
        session.warn(f"Skipped dependency: {clean(skipped)}")
