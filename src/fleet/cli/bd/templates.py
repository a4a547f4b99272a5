"""Sections that a description needs, by task type, for `bd create --validate`."""

from __future__ import annotations

from fleet.core.errors import BadInput

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
