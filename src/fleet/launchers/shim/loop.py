"""Waits for descriptors and calls back."""

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Loop:
    """One poll for everything: a silent agent costs nothing."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}

    def read(self, handle: int, callback: "Callable[[], None]") -> None:
        """Call whenever there is something to read, or the other end has closed."""
        self._readers[handle] = callback
        self._register(handle)

    def hangup(self, handle: int, callback: "Callable[[], None]") -> None:
        """Call when the other end has closed; what there is to read is somebody else's."""
        self._readers[handle] = callback
        self._poll.register(handle, 0)

    def write(self, handle: int, callback: "Callable[[], None] | None") -> None:
        """Call whenever something can be written; nothing: no more."""
        if callback is None:
            if self._writers.pop(handle, None) is None:
                return
        else:
            self._writers[handle] = callback
        self._register(handle)

    def forget(self, handle: int) -> None:
        """Before it is closed."""
        if handle in self._readers or handle in self._writers:
            self._readers.pop(handle, None)
            self._writers.pop(handle, None)
            self._poll.unregister(handle)

    def turn(self, seconds: float | None) -> None:
        """Wait for at most so long, then call whoever can go on."""
        for handle, events in self._poll.poll(None if seconds is None else max(0, int(seconds * 1000) + 1)):
            if events & ~select.POLLOUT and handle in self._readers:
                self._readers[handle]()
            if events & ~select.POLLIN and handle in self._writers:
                self._writers[handle]()

    def _register(self, handle: int) -> None:
        events = (select.POLLIN if handle in self._readers else 0) | (select.POLLOUT if handle in self._writers else 0)
        if handle in self._readers or handle in self._writers:
            self._poll.register(handle, events)
        else:
            self._poll.unregister(handle)
