"""bd init: create the home if it does not exist, and set the prefix of IDs."""

from __future__ import annotations

from fleet.cli.bd.settings import PREFIX, checked, config, prefix_named
from fleet.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session

FLAGS = {
    "init": """
-p --prefix TEXT   | what ids begin with (default fleet)
--skip-hooks       | accepted; there are no git hooks
--skip-agents      | accepted; no file of a project is written
--init-if-missing  | accepted; init never harms what is there
--non-interactive  | accepted; nothing is asked
--stealth          | accepted; no file of a project is written
--setup-exclude    | accepted; no file of a project is written
--contributor      | accepted; there is one way to work
--team             | accepted; there is one way to work
--role TEXT        | accepted; there is one way to work
--agents-template TEXT | accepted; no file of a project is written
--agents-profile TEXT  | accepted; no file of a project is written
--agents-file TEXT     | accepted; no file of a project is written
--force            | not supported: fleet never recreates a database
--reinit-local     | not supported: fleet never recreates a database
--discard-remote   | not supported: there is no remote
--destroy-token TEXT | not supported: nothing is destroyed
--from-jsonl       | not supported: use bd import
--remote TEXT      | not supported: there is no remote
--backend TEXT     | not supported: the queue is the one in $FLEET_HOME
--database TEXT    | not supported: the queue is the one in $FLEET_HOME
--server           | not supported: there is no server
--server-host TEXT | not supported: there is no server
--server-port TEXT | not supported: there is no server
--server-user TEXT | not supported: there is no server
--server-socket TEXT | not supported: there is no server
--shared-server    | not supported: there is no server
--external         | not supported: there is no server
""",
}


def init(session: Session) -> int:
    """Create the home if it does not exist, and set the prefix. An existing home keeps its content."""
    from fleet.actions.control.homes import CREATED_DATABASE
    from fleet.actions.control.homes import init as make  # writes settings; not needed for help

    _refuse_unsupported(session)
    if session.arguments.words:
        raise UsageError(f"init takes no words, got {session.arguments.words[0]!r}", hint="`bd init --prefix NAME`")
    asked = session.arguments.text("prefix")
    if asked:
        prefix_named(asked)
    changes = make(session.home).changes
    if asked:
        with session.store.atomic():
            session.store.config.set(PREFIX, checked(session, PREFIX, asked))
    prefix = config(session)[PREFIX]
    if session.json:
        found = {"path": session.home.root, "database_path": session.home.database, "prefix": prefix}
        return session.answer({**found, "created": CREATED_DATABASE in changes})
    if not session.quiet:
        made = "bd initialized successfully!" if changes else "bd was initialized already; nothing to change."
        session.say(f"✓ {made}\n\n  Database: {session.home.database}\n  Issue prefix: {prefix}")
        session.say(f"  Issues will be named: {prefix}-<hash> (e.g., {prefix}-a3f)")
    return 0


def _refuse_unsupported(session: Session) -> None:
    for row in FLAGS["init"].strip().splitlines():
        names, _, reason = row.partition("|")
        flag = next(word for word in names.split() if word.startswith("--"))
        if reason.strip().startswith("not supported") and session.arguments.has(flag[2:]):
            raise UsageError(f"{flag} is {reason.strip()}", hint="`bd init --prefix NAME` is all it takes")
