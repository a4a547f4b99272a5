"""The visible command line of a process, so that a forked shim shows its folder there.

The last argument is padding that is overwritten. fleet finds a folder's shim by its command line.
"""

import os

#: Longer than any usable path.
ROOM = " " * 4096


class Title:
    """The command line of this process, in its memory. Forked processes have it at the same address."""

    def __init__(self) -> None:
        self._begin, self._words = _read()

    def end_in(self, word: str) -> None:
        """Show `word` as the last argument. Change nothing if the padding is too short or unreachable."""
        self._write(self._words.removesuffix(ROOM.encode()) + os.fsencode(word))

    def be(self, *words: str) -> None:
        """Show this command line."""
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
    """Return address and content of the arguments. Return 0 and b"" if they are unreachable."""
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
            # The command's name is in parentheses and may contain anything. After it, the arguments are fields 48 and
            # 49.
            begin, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return begin, os.pread(memory, end - begin, begin)[:-1]
        finally:
            os.close(memory)
    except (OSError, ValueError, OverflowError):
        pass
    return 0, b""
