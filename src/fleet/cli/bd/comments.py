"""bd comment and comments: add and list comments of a task."""

from __future__ import annotations

from datetime import UTC

from fleet.beads.format import comment as comment_json
from fleet.cli.bd.session import read_source
from fleet.cli.text import block, clean
from fleet.core import checks
from fleet.core.errors import BadInput, UsageError
from fleet.core.ids import new_uuid
from fleet.core.task import Comment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session

FLAGS = {
    "comment": """
--stdin          | read the text from stdin
-f --file TEXT   | read the text from a file, - for stdin
-a --author TEXT | who says it (default: who is acting)
""",
    "add": """
-f --file TEXT   | read the text from a file, - for stdin
-a --author TEXT | who says it (default: who is acting)
""",
    "comments": """
--local-time | show times in the local zone instead of UTC
""",
}

NO_LIST = """"bd comments list" is not valid.

To list comments on an issue, run:
  bd comments <issue-id>

Example:
  bd comments bd-123

See: bd comments --help"""

ONE_ID = """"bd comments" takes a single issue id and lists its comments.

To list comments:
  bd comments <issue-id>

To add a comment:
  bd comments add <issue-id> <text>

See: bd comments --help"""


def comment(session: Session) -> int:
    made = _add(session, "use positional args, --stdin, or --file")
    if session.json:
        return session.answer(comment_json(made))
    session.say(f"✓ Comment added to {made.task_id} — {clean(session.store.tasks.get(made.task_id).title)}")
    return 0


def add(session: Session) -> int:
    made = _add(session, "use positional args or -f to read from file")
    if session.json:
        return session.answer(comment_json(made))
    session.say(f"Comment added to {made.task_id}")
    return 0


def comments(session: Session) -> int:
    word, *more = session.arguments.at_least(1)
    if word == "list":
        raise UsageError(NO_LIST)
    if more:
        raise UsageError(ONE_ID)
    key = session.find(word, doing=f"resolving {word}")
    found = session.store.comments.find([key])
    if session.json:
        return session.answer([comment_json(each) for each in found])
    if not found:
        session.say(f"No comments on {key}")
        return 0
    session.say(f"\nComments on {key}:\n")
    zone = None if session.arguments.flag("local-time") else UTC
    for each in found:
        session.say(f"[{clean(each.author)}] at {each.created_at.astimezone(zone):%Y-%m-%d %H:%M}")
        session.say(f"\n{block(each.text, '    ')}\n")
    return 0


def leave(session: Session, key: str, text: str, *, author: str = "") -> Comment:
    """Add a comment to a task and return the comment. A run's comment has the run as its author."""
    now, caller = session.store.now(), session.caller()
    name = caller.run_id if caller else author or session.actor
    made = Comment(id=new_uuid(), task_id=key, author=name, text=text, created_at=now)
    session.store.comments.add(made)
    return made


def free_text(session: Session, what: str, ways: str) -> str:
    """Return the text from the words, stdin or a file. Raises UsageError unless exactly one source is given.

    Raises BadInput if the text is empty.
    """
    arguments = session.arguments
    words = " ".join(arguments.words[1:])
    sources = [name for name in ("file", "stdin") if arguments.has(name)]
    if len(sources) > 1:
        raise UsageError(
            "if any flags in the group [stdin file] are set none of the others can be; [file stdin] were all set"
        )
    if sources and len(arguments.words) > 1:
        raise UsageError(f'cannot combine positional text "{words}" with --{sources[0]}')
    if not sources and len(arguments.words) == 1:
        raise UsageError(f"no {what} text provided ({ways})")
    if sources:
        is_stdin = sources == ["stdin"]
        words = read_source("-" if is_stdin else arguments.text("file"))
        words = words.rstrip("\r\n") if is_stdin else words
    if not words.strip():
        raise BadInput(f"{what} text cannot be empty")
    return checks.body(what, words)


def _add(session: Session, ways: str) -> Comment:
    word = session.arguments.at_least(1)[0]
    text = free_text(session, "comment", ways)
    author = checks.line("author", session.arguments.text("author"))
    return leave(session, session.find(word, doing=f"resolving {word}"), text, author=author)
