"""Settings that describe a coder without code: how to start it, and how to interpret its output."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from fleet.config.kinds import Section, Text

# msgspec 0.22 frees a pattern inside a union with a list too often. Every command would crash at its end. So texts in
# unions have no pattern here.
Scalar = bool | int | float | str
#: What a line must contain: for each path a value, or several alternative values.
Signs = Annotated[
    dict[Text, Scalar | tuple[Scalar, ...]], Meta(title="a table of paths and the values a line must have there")
]
Path = Annotated[str, Meta(pattern=r"\A[^\s.]+(\.[^\s.]+)*\Z", max_length=200, title='a path such as "message.text"')]


class Place(Section, frozen=True, omit_defaults=True):
    """A path that applies only to some lines."""

    path: Path
    when: Signs = field(default_factory=dict)


Where = Annotated[Path | Place, Meta(title='a path such as "message.text", or a table with path and when')]
Word = Annotated[str, Meta(max_length=100_000)]
Template = Annotated[
    tuple[Word | tuple[Word, ...], ...],
    Meta(min_length=1, title="a list of words; a list within it is left out as a whole when a field in it is empty"),
]


class Output(Section, frozen=True):
    """Interpretation of a described coder's output."""

    format: Annotated[
        Literal["text", "jsonl"],
        Meta(
            description="text: each line is something it said. jsonl: each line is a JSON object; paths lead into it."
        ),
    ] = "text"
    success: Annotated[
        Signs,
        Meta(
            description="A line with all of these is its last word: it is done. None: it must hand in to be believed."
        ),
    ] = field(default_factory=dict)
    failure: Annotated[Signs, Meta(description="A line with all of these is its last word: it failed.")] = field(
        default_factory=dict
    )
    limit: Annotated[Signs, Meta(description="A line with all of these tells that its account met a limit.")] = field(
        default_factory=dict
    )
    limit_kind: Annotated[
        Literal["rate", "plan"],
        Meta(description="Which limit that is: too many requests just now, or the plan is used up."),
    ] = "rate"
    resets_at: Annotated[
        Where | None, Meta(description="Where such a line tells when the limit ends: RFC 3339, or seconds since 1970.")
    ] = None
    overload: Annotated[
        Signs, Meta(description="A line with all of these tells that the other side is overloaded.")
    ] = field(default_factory=dict)
    auth: Annotated[Signs, Meta(description="A line with all of these tells that nobody is logged in.")] = field(
        default_factory=dict
    )
    context_full: Annotated[
        Signs, Meta(description="A line with all of these tells that nothing more fits into its context.")
    ] = field(default_factory=dict)
    session: Annotated[Where | None, Meta(description="Where a line tells the session.")] = None
    text: Annotated[Where | None, Meta(description="Where a line tells what the agent says.")] = None
    tool: Annotated[Where | None, Meta(description="Where a line names a tool that is called; once per call.")] = None
    error: Annotated[Where | None, Meta(description="Where a line tells an error.")] = None
    input_tokens: Annotated[Where | None, Meta(description="Where a line tells tokens sent, without cached ones.")] = (
        None
    )
    output_tokens: Annotated[Where | None, Meta(description="Where a line tells tokens received.")] = None
    cache_read_tokens: Annotated[Where | None, Meta(description="Where a line tells tokens read from a cache.")] = None
    cache_write_tokens: Annotated[Where | None, Meta(description="Where a line tells tokens put into a cache.")] = None
    cost_usd: Annotated[Where | None, Meta(description="Where a line tells a cost in dollars.")] = None
    usage_total: Annotated[
        bool, Meta(description="Whether tokens and cost are told of the whole session so far; else they are added up.")
    ] = False
    context: Annotated[Where | None, Meta(description="Where a line tells how many tokens are in the context.")] = None
    window: Annotated[Where | None, Meta(description="Where a line tells how many tokens fit into it.")] = None


#: The keys of `Output` that are paths into a line.
PATHS = tuple(each.name for each in msgspec.structs.fields(Output) if each.default is None)
#: The keys of `Output` that state what a line must contain.
SIGNS = ("success", "failure", "limit", "overload", "auth", "context_full")
