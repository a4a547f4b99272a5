"""An event loop over descriptors with callbacks."""

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class DescriptorLoop:
    """One poll for all descriptors, so a silent agent costs nothing."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}

    def read(self, handle: int, callback: "Callable[[], None]") -> None:
        """Call `callback` whenever the handle is readable, or the other end has closed."""
        self._readers[handle] = callback
        self._register(handle)

    def hangup(self, handle: int, callback: "Callable[[], None]") -> None:
        """Call `callback` when the other end has closed. The data belongs to another reader."""
        self._readers[handle] = callback
        self._poll.register(handle, 0)

    def write(self, handle: int, callback: "Callable[[], None] | None") -> None:
        """Call `callback` whenever the handle is writable. None removes the callback."""
        if callback is None:
            if self._writers.pop(handle, None) is None:
                return
        else:
            self._writers[handle] = callback
        self._register(handle)

    def forget(self, handle: int) -> None:
        """Remove a handle. Call this before the handle is closed."""
        if handle in self._readers or handle in self._writers:
            self._readers.pop(handle, None)
            self._writers.pop(handle, None)
            self._poll.unregister(handle)

    def turn(self, seconds: float | None) -> None:
        """Wait for at most `seconds`, then call the callbacks of the ready handles."""
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
