"""What a process is seen as: one that was forked, or waited for its folder, has that in its command line all the same.

Its last argument is room that is written over. Whoever looks for the shim of a folder looks there.
"""

import os

#: No path that can be entered is longer.
ROOM = " " * 4096


class Title:
    """The command line of this process, in its memory; forked processes have it in the same place."""

    def __init__(self) -> None:
        self._begin, self._words = _read()

    def end_in(self, word: str) -> None:
        """Be seen with this as the last argument. Where there is no room, or it cannot be reached: as before."""
        self._write(self._words.removesuffix(ROOM.encode()) + os.fsencode(word))

    def be(self, *words: str) -> None:
        """Be seen with this command line."""
        self._write(b"\0".join(map(os.fsencode, words)))

    def _write(self, data: bytes) -> None:
        if len(data) <= len(self._words):
            try:
                memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
                try:
                    os.pwrite(memory, data.ljust(len(self._words), b"\0"), self._begin)
                finally:
                    os.close(memory)
            except OSError:
                pass


def _read() -> tuple[int, bytes]:
    """Where the arguments are, and what they are; nothing where they cannot be reached."""
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
            # The command's name stands in brackets and may hold anything; then the arguments are field 48 and 49.
            begin, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return begin, os.pread(memory, end - begin, begin)[:-1]
        finally:
            os.close(memory)
    except (OSError, ValueError, OverflowError):
        pass
    return 0, b""
