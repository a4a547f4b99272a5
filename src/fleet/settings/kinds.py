"""Types of setting values, with the descriptions that error messages use."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

# A program that gets the word as an argument would read a leading dash as an option.
_LINE = r"\A[^\s\-\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?\Z"
_CODER = r"\A[A-Za-z0-9][A-Za-z0-9_.-]*(:[A-Za-z_][A-Za-z0-9_.]*)?\Z"
_PROGRAM = r"\A(~?/[^\x00-\x1f\x7f]+|[^\s/~\-\x00-\x1f\x7f][^/\x00-\x1f\x7f]*)\Z"

CoderName = Annotated[str, Meta(pattern=_CODER, max_length=200, title="the name of a coder, or module:Class")]
Line = Annotated[str, Meta(pattern=_LINE, max_length=500, title="one line of text that does not start with a dash")]
Inside = Annotated[
    str,
    Meta(
        pattern=r"\A(?!/|\.git(/|\Z)|.*(\A|/)\.{0,2}(/|\Z))[^\s\-\x00-\x1f\x7f][^\x00-\x1f\x7f]*\Z",
        max_length=200,
        title="a path inside the worktree, such as .venv",
    ),
]
Text = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z", title="text")]
Variable = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", max_length=200, title="the name of a variable")]
Program = Annotated[
    str, Meta(pattern=_PROGRAM, max_length=4096, title="the name of a program, or a path that starts with / or ~/")
]
Folder = Annotated[
    str, Meta(pattern=r"\A(~|~?/[^\x00-\x1f\x7f]*)\Z", max_length=4096, title="a path that starts with / or ~/")
]
AccountName = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_-]*\Z", max_length=64, title="a name of letters, digits, _ and -")
]
ModelGlob = Annotated[
    str, Meta(pattern=r"\A[^\s\x00-\x1f\x7f]+\Z", max_length=200, title="the name of a model, or a glob of names")
]
QueueName = Annotated[
    str,
    Meta(
        pattern=r"\A(sqlite|beads|postgres(ql)?://[^\s\x00-\x1f\x7f]+)?\Z",
        max_length=4096,
        title='"sqlite", "beads", or postgresql://user@host/database',
    ),
]
Permissions = Literal["skip", "user"]
Slots = Annotated[int, Meta(ge=1, le=1000)]
Times = Annotated[int, Meta(ge=0, le=500)]
Seconds = Annotated[float, Meta(ge=0.1, le=2_592_000)]
OffOrSeconds = Annotated[float, Meta(ge=0, le=2_592_000)]
Tokens = Annotated[int, Meta(ge=1, le=10**12)]
Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
Words = Annotated[tuple[Text, ...], Meta(min_length=1, title="a list of words: the program and its arguments")]
Variables = Annotated[dict[Variable, Text], Meta(title="a table of names and texts")]
Commands = Annotated[dict[Variable, Words], Meta(title="a table of names and commands, each a list of words")]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of settings. It is immutable and rejects unknown keys."""
