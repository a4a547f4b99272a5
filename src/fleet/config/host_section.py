"""The table of settings about this host: what it is called, what it offers, and where it answers others."""

from typing import Annotated

from msgspec import Meta

from fleet.config.kinds import Section

# The same that `core.host` takes in a task's requirements, where no pattern is at hand.
HostName = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z",
        title="the name of a host: 1 to 100 letters, digits, _ . or -, a letter or digit first",
    ),
]
HostLabel = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.=+-]{0,63}\Z",
        title="a label: 1 to 64 letters, digits, _ . = + or -, a letter or digit first",
    ),
]
_PLACE = Annotated[
    str,
    Meta(
        pattern=r"\A(|([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5})\Z",
        max_length=300,
        title='an address and a port such as "10.0.0.7:7717", or nothing',
    ),
]


class HostSettings(Section, frozen=True):
    """What this host is among those that share a queue."""

    name: Annotated[
        HostName | None,
        Meta(description="What this host is called; unset: the machine's name. `fleet run --name` says it too."),
    ] = None
    labels: Annotated[
        Annotated[tuple[HostLabel, ...], Meta(max_length=32)],
        Meta(
            description="What it offers: tasks that require a label run only where it stands. `--labels` says it too."
        ),
    ] = ()
    listen: Annotated[
        _PLACE,
        Meta(description="Where its supervisor answers other hosts about logs, such as 10.0.0.5:7717; empty: nowhere."),
    ] = ""
