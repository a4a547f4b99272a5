"""Claims of an agent, compared with evidence: false claims are found, and honest ones are never called false."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders import NOON
from fleet.core.event import Event, Kind
from fleet.proof.claims import ClaimContext, Claims, claims_of
from fleet.proof.stream import StreamEvidence, stream_of
from fleet.supervisor.agent_files import ResultFile
from fleet.supervisor.task_folder import event_line

CHANGED = ("src/app/parser.py", "docs/Guide.md", "old name.txt", "tests/test_parser.py")
TRACKED = {*CHANGED, "README.md", "src/app/other.py"}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Return a workspace with the tracked files, all older than the run."""
    for name in TRACKED:
        path = tmp_path / "w" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "REPORT.md").touch()
    return tmp_path / "w"


def stream(*tools: dict[str, Any], text: str = "") -> StreamEvidence:
    """Return the stream of an agent that used these tools."""
    events = [Event(kind=Kind.TOOL_USE, tool="Bash", tool_id=str(n), data=data) for n, data in enumerate(tools)]
    return stream_of(json.dumps(event_line(event, NOON), ensure_ascii=False).encode() for event in events)


def claimed(top: Path, said: StreamEvidence | None = None, *, tells_tools: bool = True, **result: Any) -> Claims:
    ground = ClaimContext(
        top=str(top),
        artifacts=str(top.parent / "artifacts"),
        started=4_000_000_000.0,
        changed=CHANGED,
        stream=said or stream({"path": "x"}),
        tells_tools=tells_tools,
    )
    told = ResultFile(**{"summary": "did it", "status": "completed", **result})
    return claims_of(told, ground, tracked=lambda: TRACKED, unknown=lambda ids: [each for each in ids if "f" in each])


@pytest.mark.parametrize(
    "claim",
    [
        *("src/app/parser.py", "./src/app/parser.py", "@/src/app/parser.py", "SRC/APP/Parser.py", "docs/guide.md"),
        *("src/app", "src/app/", "docs", "app/parser.py", "parser.py", "repo/src/app/parser.py", "old name.txt"),
        *("src/app/parser.py (new)", "src/app/parser.py: the parser", "src/app/parser.py - mended", "`docs/Guide.md`"),
        *("gone.py -> src/app/parser.py", "gone.py → src/app/parser.py", "src/**/*.py", "tests/test_*.py", "*.md"),
        *("src/app/parser.py, docs/Guide.md", "src//app/./parser.py", "src/x/../app/parser.py"),
        *(
            "REPORT.md",
            "@@/artifacts/REPORT.md",
            "../elsewhere/x.py",
            "/etc/hostname",
            "https://example.invalid/pr/1",
            "",
        ),
    ],
)
def test_honest_claims_are_accepted_in_all_spellings(top: Path, claim: str) -> None:
    said = claim.replace("@@", str(top.parent)).replace("@", str(top))
    found = claimed(top, files_changed=(said,))
    assert (found.absent, found.untouched) == ((), ())


def test_missing_files_differ_from_unchanged_ones(top: Path) -> None:
    found = claimed(top, files_changed=("src/ghost.py", "README.md", "src/app/parser.py", f"{top}/no/such.py"))
    assert found.absent == ("src/ghost.py", f"{top}/no/such.py")
    assert found.untouched == ("README.md",)
    assert found.files_changed == 4


def test_temporary_file_is_no_false_claim_when_a_tool_wrote_it(top: Path) -> None:
    said = stream({"command": "touch scratch.py && rm scratch.py"})
    assert claimed(top, said, files_changed=("scratch.py",)).absent == ()
    wrote = stream({"path": "/a/result.json", "content": '{"files_changed": ["scratch.py"]}'})
    assert claimed(top, wrote, files_changed=("scratch.py",)).absent == ("scratch.py",), "its claim is no sign of it"


def test_ignored_file_is_no_false_claim_when_it_was_written(top: Path) -> None:
    (top / "build").mkdir()
    (top / "build" / "out.o").touch()
    ground = ClaimContext(top=str(top), artifacts="/nowhere", started=0.0)
    told = ResultFile(summary="", status="completed", files_changed=("build/out.o",))
    found = claims_of(told, ground, tracked=set, unknown=lambda _ids: [])
    assert (found.absent, found.untouched) == ((), ())


def test_missing_artifact_is_named_also_when_claimed_by_full_path(top: Path) -> None:
    (top / "artifacts").mkdir()
    (top / "artifacts" / "report.md").touch()
    ground = ClaimContext(top=str(top / "work"), artifacts=str(top / "artifacts"), started=0.0)
    claims = tuple(f"{top}/artifacts/{name}" for name in ("report.md", "report.pdf"))
    told = ResultFile(summary="", status="completed", files_changed=(*claims, "/elsewhere/report.pdf", "../x", "."))
    found = claims_of(told, ground, tracked=set, unknown=lambda _ids: [])
    assert (found.absent, found.untouched) == ((f"{top}/artifacts/report.pdf",), ())


def test_claimed_commits_are_recognized_in_any_form(top: Path) -> None:
    said = ("0123abc", "0123456789abcde01234567890abcde012345678", "1234567 add the parser", "HEAD", "add the parser")
    assert claimed(top, commits=said).unknown_commits == ()
    assert claimed(top, commits=("deadbeef", "1234567f: mend it")).unknown_commits == ("deadbeef", "1234567f")


PASSED = "passed"


def test_claimed_tests_that_never_ran_are_found(top: Path) -> None:
    quiet = stream({"command": "ls -l"}, {"path": "src/app/parser.py", "content": "pytest"})
    tests = [{"command": word, "status": PASSED} for word in ("pytest -q", "python -m pytest tests/", "npm test")]
    assert claimed(top, quiet, tests=tuple(tests)).unseen == ("pytest -q", "python -m pytest tests/", "npm test")
    whole = ({"command": "ruff check .", "status": PASSED},)
    assert claimed(top, quiet, tests=whole).unseen == ("ruff check .",), "its last word is a place, and no full stop"
    wrote = stream({"command": "cat > /a/result.json <<E\n{'tests': [{'command': 'pytest -q'}]}\nE"})
    assert claimed(top, wrote, tests=tuple(tests[:1])).unseen == ("pytest -q",)


@pytest.mark.parametrize(
    ("ran", "claim", "status"),
    [
        ("pytest -q tests", "pytest tests/test_parser.py", PASSED),
        ("cd /w && .venv/bin/pytest", "python -m pytest", PASSED),
        ("bash -lc 'pytest -x'", "pytest", PASSED),
        ("pytest -q && cat > result.json", "pytest -q", PASSED),
        ("./run-tests.sh", "pytest", PASSED),
        ("make check", "pytest", PASSED),
        ("python tools/check.py", "ruff check", PASSED),
        ("ls", "pytest", "not_run"),
        ("ls", "pytest", "failed"),
        ("ls", "I looked at the page by hand.", PASSED),
        ("ls", "make sure that it starts.", PASSED),
        ("ls", "manual inspection", PASSED),
        ("ls", "my-own-checker --all", PASSED),
    ],
)
def test_claimed_tests_are_accepted_when_they_may_have_run(top: Path, ran: str, claim: str, status: str) -> None:
    assert claimed(top, stream({"command": ran}), tests=({"command": claim, "status": status},)).unseen == ()


def test_claimed_tests_are_accepted_when_the_stream_hides_commands(top: Path) -> None:
    tests = ({"command": "pytest", "status": PASSED},)
    assert claimed(top, stream({"command": "ls"}), tests=tests).unseen == ("pytest",)
    assert claimed(top, stream({"command": "ls"}), tests=tests, tells_tools=False).unseen == ()
    assert claimed(top, stream({"command": "ls"}, {}), tests=tests).unseen == (), "a tool without its input"
    assert claimed(top, stream({"command": "ls"}).replace(whole=False), tests=tests).unseen == ()
    others = Event(kind=Kind.TOOL_USE, tool="Task", data={"prompt": "test it"})
    asked = stream_of([json.dumps(event_line(others, NOON)).encode()])
    assert claimed(top, asked, tests=tests).unseen == ()


def test_no_claims_are_recorded_without_a_result(top: Path) -> None:
    ground = ClaimContext(top=str(top), artifacts="/nowhere", started=0.0)
    assert claims_of(None, ground, tracked=set, unknown=lambda _ids: []) == Claims()
    many = claimed(top, files_changed=tuple(f"ghost-{number}-{'x' * 1000}" for number in range(5_000)))
    piece = many.piece()
    assert len(piece["absent"]) == 20 and max(map(len, piece["absent"])) <= 500 and piece["files_changed"] == 5_000
