"""bd config, statuses, types, where, info and version: settings and facts of the queue."""

from __future__ import annotations

from fleet import __version__
from fleet.actions.tasks.tasks import DEFAULT_PREFIX
from fleet.cli.text import MARKS, clean
from fleet.core import checks
from fleet.core.errors import BadInput, UsageError
from fleet.core.filter import Filter
from fleet.core.host import HOSTS_KEY
from fleet.core.task import CATEGORIES, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session

FLAGS: dict[str, str] = {}

#: The bd version whose behavior this program has. Clients of bd read it.
BD_VERSION = "1.3.0"

PREFIX, STATUSES, TYPES = "issue_prefix", "status.custom", "types.custom"
#: Namespaces of bd's settings. In fleet, only the three settings above have an effect.
NAMESPACES = (
    *("custom", "status", "types", "claim", "validation", "lint", "create", "export", "import", "sync", "dolt"),
    *("jira", "linear", "github", "gitlab", "notion", "ado", "federation", "routing", "directory", "hierarchy"),
)
PLAIN_KEYS = ("json", "actor", "min_hash_length", "max_hash_length", "max_collision_prob", "issue_id_mode")

STATUS_TEXTS = {
    Status.OPEN: "Available to work (default)",
    Status.IN_PROGRESS: "Actively being worked on",
    Status.BLOCKED: "Blocked by a dependency",
    Status.DEFERRED: "Deliberately put on ice for later",
    Status.CLOSED: "Completed",
    Status.PINNED: "Persistent, stays open indefinitely",
    Status.HOOKED: "Attached to an agent's hook",
}
CATEGORY_MARKS = {"active": "○", "wip": "◐", "done": "✓", "frozen": "❄"}
TYPE_TEXTS = {
    "task": "General work item (default)",
    "bug": "Bug report or defect",
    "feature": "New feature or enhancement",
    "chore": "Maintenance or housekeeping",
    "epic": "Large body of work spanning multiple issues",
    "decision": "Architecture decision record (ADR)",
    "spike": "Timeboxed investigation to reduce uncertainty before committing to a story",
    "story": "User story describing a feature from the user's perspective",
    "milestone": "Marks completion of a set of related issues (contains no work itself)",
}


def config_get(session: Session) -> int:
    (key,) = _words(session, 1)
    value = config(session).get(key, "")
    if session.json:
        return session.answer({"key": key, "value": value})
    session.say(value or f"{clean(key)} (not set)")
    return 0


def config_set(session: Session) -> int:
    key, value = _words(session, 2)
    with session.store.atomic():
        value = checked(session, _key(key), value)
        session.store.config.set(key, value)
    if key.partition(".")[0] not in (PREFIX, *NAMESPACES, *PLAIN_KEYS):
        session.warn(f"Warning: \"{key}\" is not a recognized config key. Use 'custom.*' for user-defined keys.")
        session.warn("Run 'bd config --help' for valid namespaces.")
    if session.json:
        return session.answer({"key": key, "value": value})
    session.say(f"Set {key} = {clean(value)}")
    return 0


def config_unset(session: Session) -> int:
    (key,) = _words(session, 1)
    with session.store.atomic():
        if key == PREFIX:
            checked(session, key, DEFAULT_PREFIX)
        session.store.config.set(key, None)
    if session.json:
        return session.answer({"key": key})
    session.say(f"Unset {clean(key)}")
    return 0


def config_list(session: Session) -> int:
    found = config(session)
    if session.json:
        return session.answer(found)
    session.say("\nConfiguration:")
    session.say("\n".join(f"  {clean(key)} = {clean(value)}" for key, value in found.items()))
    return 0


def statuses(session: Session) -> int:
    custom = dict(sorted(checks.custom_statuses(session.store.config.all()).items()))
    if session.json:
        rows = [
            {"name": name, "category": category, "icon": MARKS[name], "description": STATUS_TEXTS[name]}
            for name, category in CATEGORIES.items()
        ]
        added = [{"name": n, "category": c, "icon": CATEGORY_MARKS.get(c, "◌")} for n, c in custom.items()]
        return session.answer({"built_in_statuses": rows, **({"custom_statuses": added} if added else {})})
    session.say("Built-in statuses:")
    for name, category in CATEGORIES.items():
        session.say(f"  {MARKS[name]} {name:<14} [{category:<6}]  {STATUS_TEXTS[name]}")
    if not custom:
        session.say('\nNo custom statuses configured.\nConfigure with: bd config set status.custom "name:category,..."')
        session.say("Categories: active, wip, done, frozen")
        return 0
    session.say("\nCustom statuses:")
    for name, category in custom.items():
        session.say(f"  {CATEGORY_MARKS.get(category, '◌')} {name:<14} [{category:<6}]")
    return 0


def types(session: Session) -> int:
    custom = checks.custom_types(session.store.config.all())
    if session.json:
        rows = [{"name": name, "description": text} for name, text in TYPE_TEXTS.items()]
        return session.answer({"core_types": rows, **({"custom_types": list(custom)} if custom else {})})
    session.say("Core work types (built-in):")
    session.say("\n".join(f"  {name:<14} {text}" for name, text in TYPE_TEXTS.items()))
    if custom:
        session.say("\n".join(["\nConfigured custom types:", *(f"  {clean(name)}" for name in custom)]))
    else:
        session.say('\nNo custom types configured.\nConfigure with: bd config set types.custom "type1,type2,..."')
    return 0


def where(session: Session) -> int:
    prefix = config(session)[PREFIX]
    if session.json:
        return session.answer(
            {"path": session.home.root, "prefix": prefix, "database_path": session.home.database},
        )
    session.say(f"{session.home.root}\n  prefix: {prefix}\n  database: {session.home.database}")
    return 0


def info(session: Session) -> int:
    number = session.store.tasks.count(Filter())[""]
    if session.json:
        found = {"database_path": session.home.database, "mode": "direct", "issue_count": number}
        return session.answer({**found, "config": config(session)})
    session.say("\nBeads Database Information\n===========================")
    session.say(f"Database: {session.home.database}\nMode: direct\n\nIssue Count: {number}\n")
    return 0


def version(session: Session) -> int:
    if session.json:
        return session.answer({"version": BD_VERSION, "build": f"fleet {__version__}", "branch": "fleet"})
    session.say(f"bd version {BD_VERSION} (fleet {__version__})")
    return 0


def config(session: Session) -> dict[str, str]:
    """Return the queue's settings, always with the prefix and never with the secret key of the hosts."""
    found = {PREFIX: DEFAULT_PREFIX, **session.store.config.all()}
    return {key: found[key] for key in sorted(found) if key != HOSTS_KEY}


def _words(session: Session, number: int) -> list[str]:
    words = session.arguments.words
    if len(words) != number:
        raise UsageError(f"accepts {number} arg(s), received {len(words)}")
    return words


def _key(key: str) -> str:
    if not key.strip() or key.split() != [key]:
        raise BadInput(f"invalid config key {key!r}", hint="one word, such as status.custom")
    return checks.line("config key", key)


def checked(session: Session, key: str, value: str) -> str:
    """Return a valid value for this setting. Raises BadInput."""
    if key == PREFIX:
        return _unless_in_use(session, prefix_named(value))
    if key == STATUSES:
        return checks.custom_status_setting(value)
    if key == TYPES:
        for name in checks.custom_types({TYPES: value}):
            plain = name.replace("-", "").replace("_", "")
            if not (plain.isascii() and plain.isalnum() and name == name.lower() and len(name) <= 50):
                raise BadInput(f"invalid type name {name!r}", hint="a-z, 0-9, _ and -, up to 50")
    return checks.body("value", value)


def prefix_named(text: str) -> str:
    """Return a valid prefix for IDs. Raises BadInput."""
    name = text.strip().rstrip("-")
    plain = name.replace("-", "").replace("_", "")
    if plain.isascii() and plain.isalnum() and name[0].isalpha() and len(name) <= 50:
        return name
    raise BadInput(f"invalid prefix {text!r}", hint="letters, digits, - and _, beginning with a letter, up to 50")


def _unless_in_use(session: Session, prefix: str) -> str:
    old = config(session)[PREFIX]
    number = session.store.tasks.count(Filter())[""] if prefix != old else 0
    if number:
        raise BadInput(
            f"the prefix stays {old!r}: this queue has {number} task(s) already",
            hint="ids are kept for ever here; `bd create --id NAME --force` makes one with another prefix",
        )
    return prefix
