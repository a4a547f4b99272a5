"""`fleet log`: what the supervisor wrote last."""

import click

from fleet.actions.reading import follow, newest_log, text_of
from fleet.cli.task import write
from fleet.home import find


@click.command()
@click.argument("lines", metavar="[N]", type=click.IntRange(min=1), required=False)
@click.option("-f", "--follow", "to_follow", is_flag=True, help="Go on printing what is added, until you press Ctrl-C.")
def log(lines: int | None, to_follow: bool) -> None:
    """Print the most recent log of the supervisor: all of it, or the last N lines."""
    home = find()
    home.check()
    place = newest_log(home)
    write(follow(place, lambda: False, lines=lines) if to_follow else text_of(place, lines=lines))
