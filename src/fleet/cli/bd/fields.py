"""Flags that several verbs share: a task's texts, timestamps and metadata."""

from __future__ import annotations

from fleet.cli.bd.session import read_source
from fleet.core import checks
from fleet.core.errors import BadInput, UsageError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.cli.bd.arguments import Arguments
    from fleet.cli.bd.session import Session
    from fleet.core.rules import Rules


TEXT_FLAGS = """
-d --description TEXT   | what is to be done; - reads it from stdin
--body TEXT             | the same
-m --message TEXT       | the same
--body-file TEXT        | read the description from a file, - for stdin
--description-file TEXT | the same
--stdin                 | read the description from stdin
--design TEXT           | design notes
--design-file TEXT      | read the design notes from a file
--acceptance TEXT       | when it counts as done
--notes TEXT            | further notes
--append-notes TEXT     | add a line to the notes
--external-ref TEXT     | a reference elsewhere, such as gh-9
--spec-id TEXT          | the document that specifies it
-a --assignee TEXT      | whose it is
-e --estimate INT       | how long it may take, in minutes
--due TEXT              | when it is due: +6h, tomorrow, 2026-01-15
--defer TEXT            | hide it from ready until then
--metadata TEXT         | JSON, or @file
--allow EACH            | a glob of files its work may change; none: any
--protect EACH          | a glob of files its work must not change
--fail-to-pass          | its verify command must fail at the base
--allow-no-changes      | it may end without a change
"""
#: Flags that form a task's rules.
RULE_FLAGS = ("allow", "protect", "fail-to-pass", "allow-no-changes")


def texts(arguments: Arguments) -> dict[str, str]:
    """Return the given text fields, checked."""
    found = {}
    description = _description(arguments)
    if description is not None:
        found["description"] = checks.body("description", description)
    design = arguments.text("design") if arguments.has("design") else None
    if arguments.has("design-file"):
        design = read_source(arguments.text("design-file"))
    if design is not None:
        found["design"] = checks.body("design", design)
    for flag, field in (("acceptance", "acceptance"), ("notes", "notes")):
        if arguments.has(flag):
            found[field] = checks.body(flag, arguments.text(flag))
    for flag, field in (("external-ref", "external_ref"), ("spec-id", "spec_id"), ("assignee", "assignee")):
        if arguments.has(flag):
            found[field] = checks.line(flag, arguments.text(flag))
    return found


def moment(session: Session, flag: str) -> datetime | None:
    """Return the time that a flag names. Return None if the flag is absent or empty."""
    text = session.arguments.text(flag)
    if not text:
        return None
    from fleet.core import when

    try:
        return when.parse(text, now=session.store.now().astimezone())
    except BadInput as error:
        raise BadInput(
            f'invalid --{flag} format "{text}". Examples: +6h, tomorrow, next monday, 2025-01-15', hint=error.hint
        ) from error


def metadata(arguments: Arguments, session: Session) -> dict[str, Any]:
    """Return the metadata of the flag: JSON, or a file that contains JSON."""
    text = arguments.text("metadata")
    if not text:
        return {}
    from fleet.core.jsontext import decode

    if text.startswith("@"):
        text = read_source(text[1:])
    try:
        found = decode(text)
    except (ValueError, RecursionError) as error:
        raise BadInput("invalid JSON in --metadata: must be valid JSON", hint=str(error)) from error
    if not isinstance(found, dict):
        raise BadInput("invalid JSON in --metadata: must be an object", hint='such as {"team": "platform"}')
    for key in found:
        checks.metadata_key(key)
    return check_fleet_keys(found, session)


def check_fleet_keys(found: dict[str, Any], session: Session) -> dict[str, Any]:
    """Return metadata with checked `fleet.` keys. Raises BadInput, such as for an unknown coder."""
    if "fleet.coder" in found:
        found = {**found, "fleet.coder": known_coder(session, str(found["fleet.coder"]))}
    if found.get("fleet.workspace", "") not in ("", "directory", "worktree"):
        raise BadInput(f"unknown workspace {found['fleet.workspace']!r}", hint="directory or worktree")
    if isinstance(found.get("fleet.requires"), str):
        from fleet.core.host import check_requirements as offered

        found = {**found, "fleet.requires": offered(found["fleet.requires"])}
    if found.get("fleet.rules"):
        from fleet.actions.tasks.rules import checked

        checked(str(found["fleet.rules"]))
    return found


def rules(arguments: Arguments) -> Rules | None:
    """Return the rules from the flags. Return None if no rule flag was given."""
    if not any(arguments.has(flag) for flag in RULE_FLAGS):
        return None
    from fleet.actions.tasks import rules as ruling

    return ruling.rules(
        allow=arguments.many("allow"),
        protect=arguments.many("protect"),
        fail_to_pass=_switch(arguments, "fail-to-pass"),
        no_changes=_switch(arguments, "allow-no-changes"),
    )


def _switch(arguments: Arguments, name: str) -> bool | None:
    return arguments.flag(name) if arguments.has(name) else None


def known_coder(session: Session, name: str) -> str:
    """Return the name of a coder that is built in or described in the settings. Raises BadInput."""
    from fleet.coders import known

    try:
        return known(name)
    except BadInput:
        from fleet.settings import load  # reads settings, only for a name that is not built in

        return known(name, described=load(session.home, lenient=True).coders)


def estimate(arguments: Arguments) -> int:
    minutes = arguments.number("estimate", 0)
    if minutes < 0:
        raise BadInput("estimate must be a number of minutes, 0 or more")
    return minutes


def _description(arguments: Arguments) -> str | None:
    sources = [name for name in ("description", "body", "message") if arguments.has(name)]
    values = {arguments.text(name) for name in sources}
    files = [name for name in ("body-file", "description-file", "stdin") if arguments.has(name)]
    if len(values) > 1:
        raise UsageError(f"cannot specify different values for --{' and --'.join(sources)}")
    if len(files) + bool(values) > 1:
        raise UsageError(f"cannot specify both --{(sources + files)[0]} and --{files[-1]}")
    if files:
        return read_source("-" if files[0] == "stdin" else arguments.text(files[0]))
    if values:
        (value,) = values
        return read_source("-") if value == "-" else value
    return None


_DONE = ("Acceptance Criteria", "Define criteria to verify completion")

SECTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "bug": (
        ("Steps to Reproduce", "Describe how to reproduce the bug"),
        ("Acceptance Criteria", "Define criteria to verify the fix"),
    ),
    "task": (_DONE,),
    "feature": (_DONE,),
    "story": (_DONE,),
    "epic": (("Success Criteria", "Define high-level success criteria"),),
    "decision": (
        ("Decision", "Summarize what was decided"),
        ("Rationale", "Explain why this option was chosen"),
        ("Alternatives Considered", "List alternatives and why they were rejected"),
    ),
    "spike": (
        ("Goal", "What question does this spike answer?"),
        ("Findings", "What was learned? (fill in when complete)"),
    ),
}

#: Headings that can replace another heading.
EQUALS = {"Success Criteria": "Acceptance Criteria"}


def check_sections(task_type: str, description: str) -> None:
    """Raise BadInput if a description lacks sections that its type needs. The error names all missing sections."""
    text = description.lower()
    missing = [
        f"  - ## {heading} ({why})"
        for heading, why in SECTIONS.get(task_type, ())
        if heading.lower() not in text and EQUALS.get(heading, heading).lower() not in text
    ]
    if missing:
        raise BadInput("\n".join([f"missing required sections for {task_type}:", *missing]))
