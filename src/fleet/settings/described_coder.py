"""Settings that describe a coder without code: how to start it, and how to interpret its output."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from fleet.settings.kinds import Section, Text

# msgspec 0.22 frees a pattern inside a union with a list too often. Every command would crash at its end. So texts in
# unions have no pattern here.
Scalar = bool | int | float | str
#: What a line must contain: for each path a value, or several alternative values.
Signs = Annotated[
    dict[Text, Scalar | tuple[Scalar, ...]], Meta(title="a table of paths and the values that a line must have")
]
Path = Annotated[str, Meta(pattern=r"\A[^\s.]+(\.[^\s.]+)*\Z", max_length=200, title='a path such as "message.text"')]


class OutputPath(Section, frozen=True, omit_defaults=True):
    """A path that applies only to some lines."""

    path: Path
    when: Signs = field(default_factory=dict)


Where = Annotated[Path | OutputPath, Meta(title='a path such as "message.text", or a table with path and when')]
Word = Annotated[str, Meta(max_length=100_000)]
Template = Annotated[
    tuple[Word | tuple[Word, ...], ...],
    Meta(min_length=1, title="a list of words; fleet omits a nested list if a field in it is empty"),
]


class OutputSettings(Section, frozen=True):
    """Interpretation of a described coder's output."""

    format: Annotated[
        Literal["text", "jsonl"],
        Meta(
            description='"text": each line is a message of the agent. "jsonl": each line is a JSON object, and paths '
            "refer to its values."
        ),
    ] = "text"
    success: Annotated[
        Signs,
        Meta(
            description="A line with all these values is the final line of a successful run.\n"
            "If empty, the agent must hand in its work."
        ),
    ] = field(default_factory=dict)
    failure: Annotated[Signs, Meta(description="A line with all these values is the final line of a failed run.")] = (
        field(default_factory=dict)
    )
    limit: Annotated[
        Signs, Meta(description="A line with all these values reports that the account reached a limit.")
    ] = field(default_factory=dict)
    limit_kind: Annotated[
        Literal["rate", "plan"],
        Meta(description='Kind of that limit: "rate" for too many requests, "plan" for a plan that is used up.'),
    ] = "rate"
    resets_at: Annotated[
        Where | None,
        Meta(description="Path to the time at which that limit ends, in RFC 3339 or as seconds since 1970."),
    ] = None
    overload: Annotated[
        Signs, Meta(description="A line with all these values reports that the coder's service is overloaded.")
    ] = field(default_factory=dict)
    auth: Annotated[
        Signs, Meta(description="A line with all these values reports that the coder is not logged in.")
    ] = field(default_factory=dict)
    context_full: Annotated[
        Signs, Meta(description="A line with all these values reports that the context is full.")
    ] = field(default_factory=dict)
    session: Annotated[Where | None, Meta(description="Path to the ID of the session.")] = None
    text: Annotated[Where | None, Meta(description="Path to a message of the agent.")] = None
    tool: Annotated[
        Where | None, Meta(description="Path to the name of a called tool. It must match one line per call.")
    ] = None
    error: Annotated[Where | None, Meta(description="Path to an error.")] = None
    input_tokens: Annotated[
        Where | None, Meta(description="Path to the number of tokens sent, without cached tokens.")
    ] = None
    output_tokens: Annotated[Where | None, Meta(description="Path to the number of tokens received.")] = None
    cache_read_tokens: Annotated[Where | None, Meta(description="Path to the number of tokens read from a cache.")] = (
        None
    )
    cache_write_tokens: Annotated[
        Where | None, Meta(description="Path to the number of tokens written to a cache.")
    ] = None
    cost_usd: Annotated[Where | None, Meta(description="Path to a cost in dollars.")] = None
    usage_total: Annotated[
        bool, Meta(description="Treat tokens and cost as totals of the session so far. Otherwise fleet adds them up.")
    ] = False
    context: Annotated[Where | None, Meta(description="Path to the number of tokens in the context.")] = None
    window: Annotated[Where | None, Meta(description="Path to the size of the context in tokens.")] = None


#: The keys of `Output` that are paths into a line.
PATHS = tuple(each.name for each in msgspec.structs.fields(OutputSettings) if each.default is None)
#: The keys of `Output` that state what a line must contain.
SIGNS = ("success", "failure", "limit", "overload", "auth", "context_full")
