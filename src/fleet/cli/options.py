"""Options that several commands share: one word, one meaning and one wording for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from click.shell_completion import CompletionItem

    Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Option(click.Option):
    """An option that also accepts its former spellings, which help and completion do not show."""

    def __init__(self, param_decls: Sequence[str], *, former: Sequence[str] = (), **given: Any) -> None:
        super().__init__(param_decls, **given)
        self.former = list(former)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Accept all spellings."""
        shown = self.opts
        self.opts = [*shown, *self.former]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def complete(what: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a function of `completion` by its name. The module is imported only if a shell asks."""

    def candidates(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from fleet.cli import completion

        found: list[CompletionItem] = getattr(completion, f"complete_{what}")(ctx, param, incomplete)
        return found

    return candidates


with_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
with_all_projects = click.option(
    "--all-projects", is_flag=True, help="Include all repositories, not only the current one."
)
with_dry_run = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")
with_yes = click.option("-y", "--yes", "sure", is_flag=True, help="Do not ask for confirmation.")


def with_coder(what: str, *, former: Sequence[str] = ()) -> Callable[[Decorated], Decorated]:
    """Return the option for a coder, with its help."""
    return click.option(
        *("-c", "--coder"),
        cls=Option,
        former=former,
        default="",
        metavar="CODER",
        shell_complete=complete("coders"),
        help=what,
    )


def with_limit(what: str, default: int = 100) -> Callable[[Decorated], Decorated]:
    """Return the option for a limit, where 0 means no limit."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(min=0),
        default=default,
        show_default=True,
        metavar="N",
        help=f"Show at most N {what}; 0 shows all.",
    )
