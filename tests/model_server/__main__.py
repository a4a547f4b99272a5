"""`python -m model_server FILE`, which serves the scenarios of a JSON file until it is stopped.

The file holds an object of lists of turns, `{"ok": [{"shell": "date > now"}, {"text": "done"}]}`. The first printed
line gives the address and key of each scenario. Each later line is a request.
"""

import json
import sys
from pathlib import Path

from model_server.server import SUFFIXES, ModelServer


def main(words: list[str]) -> int:
    """Serve the scenarios of a file. Return the exit code."""
    if len(words) != 1:
        sys.stderr.write("usage: python -m model_server FILE\n")
        return 2
    try:
        with ModelServer() as server:
            serve(server, Path(words[0]))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"error: {words[0]}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def serve(server: ModelServer, file: Path) -> None:
    """Print the addresses of the scenarios, then their requests."""
    made = {name: server.scenario(turns, name=name) for name, turns in json.loads(file.read_text("utf-8")).items()}
    places = {name: {"key": one.key, **{wire: one.url(wire) for wire in SUFFIXES}} for name, one in made.items()}
    tell(places)
    for request in server.log.follow():
        tell({name: value for name, value in request._asdict().items() if name != "text"})


def tell(line: object) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
