"""Results of stages: the text of a field, the round that counts, and the branch from which an heir starts.

Results map the names of plan stages to bodies: summary, files_changed, tests, commits, next_steps, status, branch,
commit, finding. A skipped stage has only the status "skipped". A stage without a body has no result.
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

#: Keys besides the body: its author, and the error in an agent's result. FLEET is an author.
MADE_BY, REFUSED, FLEET = "made_by", "refused", "fleet"
SKIPPED = "skipped"
#: Key of a stage that was skipped because its list has no such item.
NO_ITEM = "no_item"
STATUSES = ("completed", "completed_no_changes", "blocked", "failed", SKIPPED)
#: The content of `{…_result}`: the contract of result.json.
CONTRACT = ("summary", "files_changed", "tests", "commits", "next_steps", "status")
_LISTS = {"files": ("files_changed", ", "), "next_steps": ("next_steps", "\n")}


class NoList(FleetError):
    """The list from which stages are made is unknown."""

    hint = "run `fleet bd reopen` on the task that hands it in, then `fleet retry` on this task"


def no_item(stage: Stage) -> str:
    return f"{stage.items_of} has no item {stage.items_from}"


def text_of(body: Mapping[str, Any], field: str) -> str:
    """Return one field of a body as text. Empty if it is missing."""
    if field == "result":
        shown = {key: body[key] for key in CONTRACT if key in body}
        return encode(shown, 2) if shown else ""
    if field in _LISTS:
        return _LISTS[field][1].join(list_of(body, field))
    value = body.get(field, "")
    return value if isinstance(value, str) else ""


def list_of(body: Mapping[str, Any], field: str) -> list[str]:
    """Return the texts in a list field of a body. Empty if it is missing."""
    found = body.get(_LISTS[field][0], ())
    return [each for each in found if isinstance(each, str)] if isinstance(found, list | tuple) else []


def own_items(stage: Stage, results: Results) -> list[str]:
    """Return the items of an earlier stage's list that a copy of a stage handles. Empty if the list is too short.

    Raises NoList if the list is unknown because the agent handed in no usable result.
    """
    reference = bare_reference(stage.items_of)
    if reference is None:
        return []
    found = bodies(stage.reads[reference.head], results)
    for name, body in found:
        if reference.field == "next_steps" and body.get(MADE_BY) == FLEET:
            why = f": {body[REFUSED]}" if body.get(REFUSED) else ""
            raise NoList(f"{name} has no result, so {stage.items_of} is unknown{why}")
    items = [text for _, body in found for text in list_of(body, reference.field) if text.strip()]
    return items[stage.items_from - 1 : None if stage.has_the_rest else stage.items_from]


def that_ran(chain: Chain, results: Results) -> str:
    """Return the last round that ran. Return the first if none did."""
    for name in reversed(chain):
        body = results.get(name, {})
        # results of an earlier round for an item that no longer exists do not count
        if is_there(body) or body.get(NO_ITEM):
            return name
    return chain[0]


def is_there(body: Mapping[str, Any]) -> bool:
    """Return True if a stage ran and has a result."""
    return bool(body) and body.get("status") != SKIPPED


def was_skipped(chain: Chain, results: Results) -> bool:
    """Return True if no round counts or ever will.

    Each round that has a body was skipped, or its item no longer exists.
    """
    return any(name in results for name in chain) and not is_there(results.get(that_ran(chain, results), {}))


def bodies(chains: Sequence[Chain], results: Results) -> list[tuple[str, Mapping[str, Any]]]:
    """Return for each item the round that counts, with its body.

    Items missing from their list are left out, unless all are.
    """
    names = [that_ran(chain, results) for chain in chains if chain]
    found = [(name, results.get(name, {})) for name in names]
    return [(name, body) for name, body in found if not body.get(NO_ITEM)] or found


def inherits_from(stage: Stage, results: Results) -> str:
    """Return the plan stage from whose branch this one starts. Empty if it starts on a new branch.

    It is the first stage before this one, or the stage with which a loop continues. If that stage was skipped, it is
    the stage from which the skipped one would have started.
    """
    if not stage.inherits:
        return ""
    for chain in (*stage.inherited, *stage.origins):
        name = that_ran(chain, results)
        if text_of(results.get(name, {}), "branch"):
            return name
    return ""
