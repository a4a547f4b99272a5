"""Entry point of the program `fleet` (also `flt`, and `python -m fleet`)."""

import gc
import sys

#: Arguments that start a supervisor in the background.
IN_BACKGROUND = ["run", "foreground", "--quiet"]


def main() -> None:
    """Run the command line of this process. `bd` has a separate path because agents call it hundreds of times."""
    args = sys.argv[1:]
    if args[:1] == ["bd"]:
        from fleet.cli.bd import main as bd

        sys.exit(bd(args[1:]))

    gc.disable()  # imports create no garbage; the command enables collection again
    from fleet.cli.errors import debugging, run

    if args[:3] == IN_BACKGROUND and "--report" in args and not debugging():
        from fleet.cli.foreground import run_background

        sys.exit(run(lambda: run_background(args[2:])))
    sys.exit(run(lambda: call(args)))


def call(args: list[str]) -> int:
    """Run one command line, without click if it is plain."""
    from fleet.cli import lazy_click

    code = lazy_click.call(args)
    if code is not None:
        return code
    from fleet.cli import main as with_click

    name = sys.argv[0].rpartition("/")[2]
    return with_click.call(args, name if name in ("fleet", "flt") else "fleet")


if __name__ == "__main__":
    main()
