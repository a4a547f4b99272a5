"""What stages handed in: the text of a field, the round that counts, and where an heir starts.

Results map the names of plan stages to bodies: summary, files_changed, tests, commits, next_steps, status, branch,
commit, finding. A stage that was skipped has only the status "skipped"; one without a body has nothing to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.core.jsontext import encode
from fleet.workflows.references import bare_reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.core.workflow import Chain, Stage

    Results = Mapping[str, Mapping[str, Any]]

SKIPPED = "skipped"
STATUSES = ("completed", "completed_no_changes", "blocked", "failed", SKIPPED)
#: What `{…_result}` shows: the contract of result.json.
CONTRACT = ("summary", "files_changed", "tests", "commits", "next_steps", "status")
_LISTS = {"files": ("files_changed", ", "), "next_steps": ("next_steps", "\n")}


def text_of(body: Mapping[str, Any], field: str) -> str:
    """One field of a body as text; empty where it is not there."""
    if field == "result":
        shown = {key: body[key] for key in CONTRACT if key in body}
        return encode(shown, 2) if shown else ""
    if field in _LISTS:
        return _LISTS[field][1].join(list_of(body, field))
    value = body.get(field, "")
    return value if isinstance(value, str) else ""


def list_of(body: Mapping[str, Any], field: str) -> list[str]:
    """The texts in a field of a body that is a list; none where it is not there."""
    found = body.get(_LISTS[field][0], ())
    return [each for each in found if isinstance(each, str)] if isinstance(found, list | tuple) else []


def own_items(stage: Stage, results: Results) -> list[str]:
    """What of an earlier stage's list a copy of a stage is for; nothing where the list ends before it."""
    reference = bare_reference(stage.items_of)
    if reference is None:
        return []
    found = bodies(stage.reads[reference.head], results)
    items = [text for _, body in found for text in list_of(body, reference.field) if text.strip()]
    return items[stage.items_from - 1 : None if stage.has_the_rest else stage.items_from]


def that_ran(chain: Chain, results: Results) -> str:
    """The last round that ran; where none did, the first."""
    for name in reversed(chain):
        if is_there(results.get(name, {})):
            return name
    return chain[0]


def is_there(body: Mapping[str, Any]) -> bool:
    """Whether a stage ran and said something."""
    return bool(body) and body.get("status") != SKIPPED


def was_skipped(chain: Chain, results: Results) -> bool:
    """Whether no round of it ran, and none will: each that has a body was skipped."""
    bodies = [results[name] for name in chain if name in results]
    return bool(bodies) and not any(is_there(body) for body in bodies)


def bodies(chains: Sequence[Chain], results: Results) -> list[tuple[str, Mapping[str, Any]]]:
    """For each item the round that counts, with its body."""
    names = [that_ran(chain, results) for chain in chains if chain]
    return [(name, results.get(name, {})) for name in names]


def inherits_from(stage: Stage, results: Results) -> str:
    """The plan stage from whose branch this one starts; empty where it has a new one.

    It is the first thing that this stage comes after; where that was skipped, what that one would have started from.
    """
    if not stage.inherits:
        return ""
    for chain in (*stage.after[:1], *stage.origins):
        name = that_ran(chain, results)
        if text_of(results.get(name, {}), "branch"):
            return name
    return ""
