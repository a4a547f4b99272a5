"""The rules of a task from command-line options, checked before anything is written."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.rules import Rules, beyond_bounds, rules_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_GLOBS = 100
LONGEST_GLOB = 300
HINT = "write globs relative to the repository: src/, *.md, docs/**/*.txt"


def rules(
    *,
    allow: Iterable[str] = (),
    protect: Iterable[str] = (),
    fail_to_pass: bool | None = None,
    no_changes: bool | None = None,
) -> Rules:
    """Return the rules from these options.

    An option that is not given sets no rule. Raises BadInput for an invalid glob.
    """
    allowed, protected = _globs("--allow", allow), _globs("--protect", protect)
    return Rules(allow=allowed, protect=protected, fail_to_pass=fail_to_pass, no_changes=no_changes)


def changed(text: str, said: Rules) -> str:
    """Return the rules in a text with these new values in place of the old ones. Raises BadInput."""
    new = {name: value for name, value in said.as_dict().items() if value not in ((), None, "")}
    return _understood(text).replace(**new).text()


def checked(text: str) -> Rules:
    """Return the rules in an untrusted text. Raises BadInput if they are invalid."""
    found = _understood(text)
    if text and (wrong := beyond_bounds(text)):
        raise BadInput(f"fleet.rules not allowed: {wrong}")
    _globs("allow", found.allow)
    _globs("protect", found.protect)
    return found


def _understood(text: str) -> Rules:
    try:
        return rules_in(text)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"invalid fleet.rules: {error}", hint='write fleet.rules like {"allow": ["src/"]}') from error


def _globs(option: str, given: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(given))
    if len(found) > MOST_GLOBS:
        raise BadInput(
            f"{option} has {len(found)} globs; the maximum is {MOST_GLOBS}", hint="use `**` to match many files"
        )
    for glob in found:
        if reason := _wrong_with(glob):
            raise BadInput(f"{option} {glob[:80]!r} is not a glob: {reason}", hint=HINT)
    return found


def _wrong_with(glob: str) -> str:
    if not glob.strip("/. "):
        return "it is empty"
    if len(glob) > LONGEST_GLOB:
        return "it is too long"
    if not glob.isprintable():
        return "it contains an unprintable character"
    return "'..' leads out of the repository" if ".." in glob.split("/") else ""
