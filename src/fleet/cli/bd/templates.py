"""The sections a description needs, by the type of the task: what `bd create --validate` asks for."""

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

#: Another heading that serves as well.
EQUALS = {"Success Criteria": "Acceptance Criteria"}


def check_sections(task_type: str, description: str) -> None:
    """Refuse a description that lacks what its type needs; all that is missing is told at once. Raises BadInput."""
    text = description.lower()
    missing = [
        f"  - ## {heading} ({why})"
        for heading, why in SECTIONS.get(task_type, ())
        if heading.lower() not in text and EQUALS.get(heading, heading).lower() not in text
    ]
    if missing:
        raise BadInput("\n".join([f"missing required sections for {task_type}:", *missing]))
