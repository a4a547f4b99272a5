"""Receipts in plain words: the finding first, then its evidence. Pure. Callers must escape the text for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.finding import LAST_WORDS, Finding
from fleet.core.receipt import RECHECK
from fleet.core.run import COMPUTED, UNKNOWN
from fleet.proof.verify.counts import failed_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from fleet.core.receipt import Receipt
    from fleet.core.run import Run

#: The meaning of each finding, for readers who do not know the word.
MEANING = {
    Finding.VERIFIED: "real work, verified by fleet",
    Finding.UNVERIFIED: "nothing proves its work",
    Finding.NO_CHANGES: "it changed nothing",
    Finding.FAILED_VERIFY: "verification failed",
    Finding.INCOMPLETE: "it did not finish",
    Finding.FABRICATED: "its claims are false",
    Finding.OUT_OF_SCOPE: "it changed files outside its scope",
    Finding.INFRA_ERROR: "external cause: a limit, an outage or a lost agent",
}
MOST_LINES = 10
LONGEST_BRIEF = 200
WIDTH = 12


def brief(receipt: Receipt) -> str:
    """Return the details of a finding in a few words, such as failed tests. Return "" if the finding says it all."""
    verify = (receipt.told.get("pieces") or {}).get("verify")
    verify = verify if isinstance(verify, dict) else {}
    if receipt.finding == Finding.VERIFIED:
        return f"{verify['passed']} passed" if verify.get("passed") else ""
    if receipt.finding == Finding.FAILED_VERIFY and verify.get("failed"):
        names = failed_names(str(verify.get("tail") or ""))
        more = " …" if len(names) < verify["failed"] else ""
        return f"{verify['failed']} failed" + (f", {', '.join(names)}{more}" if names else "")
    shown = [str(each) for each in receipt.told.get("shown") or ()]
    return "; ".join(each.removeprefix(LAST_WORDS) for each in shown)[:LONGEST_BRIEF]


def headline(receipt: Receipt) -> str:
    """Return one line with the run and the finding."""
    return f"{receipt.run_id}: {receipt.finding} – {meaning(receipt)}"


def meaning(receipt: Receipt) -> str:
    """Return the meaning of a receipt's finding. Work is called real only if git shows the run's own changes."""
    git = (receipt.told.get("pieces") or {}).get("git")
    git = git if isinstance(git, dict) else {}
    if receipt.finding == Finding.UNVERIFIED:
        if git.get("file_count") == 0:
            return "it changed no file, and nothing proves its claims"
        if git.get("file_count") and not _has_content(git):
            return "it changed no content of a file, and nothing proves its work"
        if git.get("file_count") and not git.get("blank") and not git.get("others"):
            return "real work without proof"
    if receipt.finding == Finding.VERIFIED and not _has_content(git):
        return "verified by fleet; it changed no file content"
    return MEANING.get(receipt.finding, "a finding unknown to this version of fleet")


def _has_content(git: Mapping[str, Any]) -> bool:
    """Return False if git shows no changed file, or only files that are empty, moved or unchanged in content."""
    rows = [each for each in git.get("files") or () if isinstance(each, dict) and not each.get("submodule")]
    if not git.get("files"):
        return git.get("file_count") is None
    return any(each.get("added", 1) is None or each.get("added", 1) or each.get("removed", 1) for each in rows)


def lines(receipt: Receipt, run: Run | None = None) -> list[str]:
    """Return the whole receipt as lines: labels on the left, values on the right."""
    found = [headline(receipt)]
    for label, words in sections(receipt, run):
        for number, line in enumerate(words):
            found.append(f"{label + ':' if number == 0 else '':<{WIDTH}} {line}".rstrip())
    return found


def sections(receipt: Receipt, run: Run | None = None, *, output: bool = True) -> list[tuple[str, list[str]]]:
    """Return the known facts by label. Labels without facts are left out.

    Without `output`, the verify command's output is not quoted.
    """
    told = receipt.told
    pieces = told.get("pieces") or {}

    def piece(name: str) -> Mapping[str, Any]:
        found = pieces.get(name)
        return found if isinstance(found, dict) else {}

    parts = (
        ("why", [str(each) for each in told.get("shown") or () if output or not str(each).startswith(LAST_WORDS)]),
        ("by", _who(receipt, run, piece("spawn"))),
        ("took", _took(run, piece("stream"), piece("process"))),
        ("changed", _changed(piece("git"))),
        ("commits", _commits(piece("git"))),
        ("verify", _verify(piece("verify"), piece("base"), output=output)),
        ("claims", _claims(piece("claims"))),
        ("scope", _scope(piece("scope"))),
        ("flags", [*map(str, piece("scope").get("flags") or (run.flagged if run else ()))][:MOST_LINES]),
        ("contained", [str(found)] if (found := piece("process").get("containment")) else []),
        ("receipt", [f"{receipt.hash[:16]}, made at {receipt.made_at:%Y-%m-%d %H:%M:%S} UTC"]),
    )
    return [(label, words) for label, words in parts if words]


def _who(receipt: Receipt, run: Run | None, spawn: Mapping[str, Any]) -> list[str]:
    words = receipt.coder or "an unknown coder"
    if spawn.get("version"):
        words += f" {spawn['version']}"
    words += f" with {receipt.model}" if receipt.model else ""
    words += f" on account {run.account}" if run and run.account else ""
    if RECHECK in receipt.run_id:
        words += ", verified again later"
    program = f"{spawn['program']} ({str(spawn.get('program_hash') or '?')[:12]})" if spawn.get("program") else ""
    return [words, *([program] if program else [])]


def cost_in_words(run: Run) -> str:
    """Return the cost of a run and, if fleet computed it, the price list."""
    cost, basis = f"${run.cost_usd or 0.0:.4f}", run.cost_basis.partition(":")[0]
    if basis == COMPUTED:
        return f"{cost} computed by the prices of {run.prices}"
    if basis == UNKNOWN:
        return "no known cost" if run.cost_usd is None else f"at least {cost}"
    return cost


def _took(run: Run | None, stream: Mapping[str, Any], process: Mapping[str, Any]) -> list[str]:
    words = []
    if run is not None and run.ended_at is not None:
        words.append(_duration((run.ended_at - run.started_at).total_seconds()))
    if run is not None and (run.cost_usd is not None or run.cost_basis):
        words.append(cost_in_words(run))
    if run is not None and run.tokens:
        words.append(f"{run.tokens:,} tokens")
    if (calls := stream.get("tool_calls")) is not None:
        words.append(_many(calls, "tool call"))
    if denied := stream.get("denied"):
        words.append(f"{len(denied) if isinstance(denied, list) else denied} denied")
    if process.get("exit_signal"):
        words.append(f"killed by signal {process['exit_signal']}")
    elif process.get("exit_status") is not None:
        words.append(f"exit code {process['exit_status']}")
    return [", ".join(words)] if words else []


def _changed(git: Mapping[str, Any]) -> list[str]:
    count = git.get("file_count")
    if count is None:
        return []
    found = [f"{_many(count, 'file')}, +{git.get('added') or 0} -{git.get('removed') or 0} lines"]
    if git.get("branch"):
        found[0] += f" on {git['branch']}"
    found[0] += ", white space alone" if git.get("blank") else ""
    files = [each for each in git.get("files") or () if isinstance(each, dict)]
    found += [f"{each.get('status') or '?'} {each.get('path')}" for each in files[:MOST_LINES]]
    more = count - min(len(files), MOST_LINES)
    return [*found, f"and {more} more"] if files and more > 0 else found


def _commits(git: Mapping[str, Any]) -> list[str]:
    made = [each for each in git.get("commits") or () if isinstance(each, dict)]
    found = [f"{str(each.get('id'))[:12]} {each.get('subject')} ({each.get('author')})" for each in made[:MOST_LINES]]
    more = (git.get("commit_count") or 0) - len(found)
    return [*found, f"and {more} more"] if found and more > 0 else found


def _verify(verify: Mapping[str, Any], base: Mapping[str, Any], *, output: bool) -> list[str]:
    if why := verify.get("not_verified") or verify.get("setup"):
        return [f"not verified: {why}"]
    if not verify.get("command"):
        return []
    ended = verify.get("why") or f"ended with exit code {verify.get('status')}"
    found = [f"`{verify['command']}` {ended} after {_duration(verify.get('seconds') or 0)}{_tests(verify)}"]
    at_base = verify.get("base_status", base.get("status"))
    found += [f"at the base it ended with {at_base}"] if at_base is not None else []
    for name, words in (
        ("used", "used without being in the commit"),
        ("restored", "taken from the base"),
        ("contested", "tests of the base that the branch changed"),
        ("doubts", "doubt"),
        ("notes", "note"),
    ):
        some = verify.get(name) or ()
        found += [f"{words}: {', '.join(map(str, some[:MOST_LINES]))}"] if some else []
    judges = [_program(str(each)) for each in verify.get("programs") or ()]
    found += [f"judged by: {', '.join(judges[:MOST_LINES])}"] if judges else []
    found += [f"it was run with {verify['containment']}"] if verify.get("containment") else []
    return [*found, *(f"| {line}" for line in (_tail(verify) if output else ()))]


def _program(told: str) -> str:
    path, _, digest = told.rpartition(" sha256:")
    return f"{path} ({digest[:12]})"


def _tests(verify: Mapping[str, Any]) -> str:
    counts = ((verify.get(name), name) for name in ("passed", "failed", "skipped"))
    words = [f"{number} {name}" for number, name in counts if number or (name == "passed" and number is not None)]
    return f"; tests: {', '.join(words)}" if words else ""


def _tail(verify: Mapping[str, Any]) -> list[str]:
    """Return the last lines of the command's output: up to 20 if it failed, else up to 3."""
    ended_well = verify.get("status") == 0 and not verify.get("why")
    return str(verify.get("tail") or "").rstrip().splitlines()[-(3 if ended_well else 20) :]


def _claims(claims: Mapping[str, Any]) -> list[str]:
    found = []
    if claims.get("status"):
        found.append(f"it says: {claims['status']}" + (f" – {_short(claims)}" if claims.get("summary") else ""))
    for name, words in (
        ("absent", "claimed files that are not there"),
        ("vanished", "claimed files that are not there any more"),
        ("untouched", "claimed changes that were not made"),
        ("unknown_commits", "claimed commits that do not exist"),
        ("unseen", "claimed commands that it never ran"),
    ):
        found += list(_some(words, claims.get(name) or ()))
    told = claims.get("files_changed") or 0
    count = len(told) if isinstance(told, list) else told
    if count and len(found) == 1:
        found.append(f"{_many(count, 'claimed file')}, all as it says")
    return found


def _short(claims: Mapping[str, Any]) -> str:
    text = " ".join(str(claims["summary"]).split())
    return text if len(text) <= 200 else f"{text[:199]}…"


def _scope(scope: Mapping[str, Any]) -> list[str]:
    found = list(map(str, scope.get("strayed") or ()))[:MOST_LINES]
    for name, words in (
        ("contested", "contested, it says how work is judged"),
        ("allow", "allowed"),
        ("protect", "protected"),
    ):
        found += list(_some(words, scope.get(name) or ()))
    return found


def _some(words: str, names: Sequence[Any]) -> Iterator[str]:
    if names:
        more = len(names) - MOST_LINES
        yield f"{words}: {', '.join(map(str, names[:MOST_LINES]))}" + (f" and {more} more" if more > 0 else "")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
