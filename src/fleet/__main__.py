"""The program `fleet` (also `flt`, and `python -m fleet`)."""

import gc
import sys


def main() -> None:
    """Run the command line of this process. `bd` has a way of its own: agents call it hundreds of times."""
    args = sys.argv[1:]
    if args[:1] == ["bd"]:
        from fleet.cli.bd import main as bd

        sys.exit(bd(args[1:]))

    gc.disable()  # imports make no garbage; the command turns it on again
    from fleet.cli.errors import run
    from fleet.cli.main import call

    name = sys.argv[0].rpartition("/")[2]
    sys.exit(run(lambda: call(args, name if name in ("fleet", "flt") else "fleet")))


if __name__ == "__main__":
    main()
