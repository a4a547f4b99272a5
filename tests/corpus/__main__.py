"""`python -m corpus [NAME…]`: play the cases whose names contain one of these words, and print the result of each."""

import sys
import tempfile
import time
from pathlib import Path

from corpus.auditing import Auditor
from corpus.cases import CASES
from corpus.playing import Stage
from corpus.table import table, wrong


def main(words: list[str]) -> int:
    """Play the cases. Return 0 if all findings fit, else 1."""
    cases = [case for case in CASES if not words or any(word in case.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="corpus", ignore_cleanup_errors=True) as folder:
        began = time.monotonic()
        stage = Stage(Path(folder))
        try:
            played = stage.play(cases)
        finally:
            stage.stop()
        took, auditor = time.monotonic() - began, Auditor(Path(folder), stage.temporary)
        right = {each.case.name: auditor.is_right(each) for each in played}
        flaws = {each.case.name: wrong(each, right[each.case.name]) for each in played}
        for each in played:
            if each.case.bent and not auditor.is_fooled(each):
                flaws[each.case.name].append("a trick that fools nobody")
            if words or flaws[each.case.name]:
                facts = f"{'>'.join(each.findings)} ({'>'.join(each.endings)}), {each.status}"
                facts += f"; right: {right[each.case.name]}"
                sys.stdout.write(f"{each.case.kind} · {each.case.name}: {facts}\n    {each.shown}\n")
            sys.stdout.writelines(f"    WRONG: {flaw}\n" for flaw in flaws[each.case.name])
        sys.stdout.write(f"{table(played, lambda each: right[each.case.name])}\n")
        sys.stdout.write(f"played in {took:.1f} s, audited in {time.monotonic() - began - took:.1f} s\n")
    return 1 if any(flaws.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
