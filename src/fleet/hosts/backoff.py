"""Wait longer each time something is unreachable."""

from __future__ import annotations

SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 300.0


class Backoff:
    """A counter of the consecutive failures to reach each thing."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def next_seconds(self, name: str) -> float:
        """Count another failure. Return how many seconds to wait."""
        self._times[name] = times = self._times.get(name, 0) + 1
        return min(LONGEST_SECONDS, SHORTEST_SECONDS * (1 << min(times - 1, 10)))

    def times(self, name: str) -> int:
        """Return how often in a row `name` was unreachable."""
        return self._times.get(name, 0)

    def reset(self, name: str) -> None:
        """Reset the count of failures of `name`."""
        self._times.pop(name, None)
