"""What stages handed in: the text of a field, the round that counts, and where an heir starts.

Results map the names of plan stages to bodies: summary, files_changed, tests, commits, next_steps, status, branch,
commit, finding. A stage that was skipped has only the status "skipped"; one without a body has nothing to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fleet.core.errors import FleetError
from fleet.core.jsontext import encode
from fleet.workflows.references import bare_reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.core.workflow import Chain, Stage

    Results = Mapping[str, Mapping[str, Any]]

#: Beside the body: who made it, and what is wrong with what an agent left.
MADE_BY, REFUSED, FLEET = "made_by", "refused", "fleet"
SKIPPED = "skipped"
#: Of a stage that was skipped: since the list that it goes over ends before it.
NO_ITEM = "no_item"
STATUSES = ("completed", "completed_no_changes", "blocked", "failed", SKIPPED)
#: What `{…_result}` shows: the contract of result.json.
CONTRACT = ("summary", "files_changed", "tests", "commits", "next_steps", "status")
_LISTS = {"files": ("files_changed", ", "), "next_steps": ("next_steps", "\n")}


class NoList(FleetError):
    """A list that stages are to be made for is not known."""

    hint = "`fleet bd reopen` the task that hands it in, and `fleet retry` this one when that is done."


def no_item(stage: Stage) -> str:
    return f"{stage.items_of} has no item {stage.items_from}"


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
    """What of an earlier stage's list a copy of a stage is for; nothing where the list ends before it.

    Raises NoList where it is not known, since its agent handed in nothing that could be used.
    """
    reference = bare_reference(stage.items_of)
    if reference is None:
        return []
    found = bodies(stage.reads[reference.head], results)
    for name, body in found:
        if reference.field == "next_steps" and body.get(MADE_BY) == FLEET:
            why = f": {body[REFUSED]}" if body.get(REFUSED) else ""
            raise NoList(f"{name} handed in no result, so {stage.items_of} is not known{why}")
    items = [text for _, body in found for text in list_of(body, reference.field) if text.strip()]
    return items[stage.items_from - 1 : None if stage.has_the_rest else stage.items_from]


def that_ran(chain: Chain, results: Results) -> str:
    """The last round that ran; where none did, the first."""
    for name in reversed(chain):
        body = results.get(name, {})
        if is_there(body) or body.get(NO_ITEM):  # what an earlier round made for an item that is no more does not count
            return name
    return chain[0]


def is_there(body: Mapping[str, Any]) -> bool:
    """Whether a stage ran and said something."""
    return bool(body) and body.get("status") != SKIPPED


def was_skipped(chain: Chain, results: Results) -> bool:
    """Whether no round of it counts, and none will: each that has a body was skipped, or its item is no more."""
    return any(name in results for name in chain) and not is_there(results.get(that_ran(chain, results), {}))


def bodies(chains: Sequence[Chain], results: Results) -> list[tuple[str, Mapping[str, Any]]]:
    """For each item the round that counts, with its body. Of a list that was not known before, for those it has."""
    names = [that_ran(chain, results) for chain in chains if chain]
    found = [(name, results.get(name, {})) for name in names]
    return [(name, body) for name, body in found if not body.get(NO_ITEM)] or found


def inherits_from(stage: Stage, results: Results) -> str:
    """The plan stage from whose branch this one starts; empty where it has a new one.

    It is the first thing that this stage comes after, or what a loop goes on with; where that was skipped, what that
    one would have started from.
    """
    if not stage.inherits:
        return ""
    for chain in (*stage.inherited, *stage.origins):
        name = that_ran(chain, results)
        if text_of(results.get(name, {}), "branch"):
            return name
    return ""
