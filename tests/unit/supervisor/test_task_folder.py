"""The folder of a task: its files, and the harmlessness of all that an agent leaves there."""

import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from builders import NOON, a_task
from fleet.core.errors import BadInput
from fleet.core.event import Event, Kind, Limit, Usage
from fleet.core.redaction import MARK, Redactor
from fleet.home import Home
from fleet.supervisor import questions_file
from fleet.supervisor import task_folder as folder_module
from fleet.supervisor.agent_files import LONGEST_LINE, AgentFiles
from fleet.supervisor.task_folder import TaskFolder
from fleet.supervisor.task_json import Edits

SECRET = "correct-horse-battery"


@pytest.fixture
def folder(tmp_path: Path) -> TaskFolder:
    home = Home(str(tmp_path / "home"))
    home.make()
    made = TaskFolder(home, "fleet-1", redactor=Redactor([SECRET]), now=lambda: NOON)
    made.make(run=1)
    return made


def lines(folder: TaskFolder, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(folder.path, name).read_text("utf-8").splitlines()]


def artifact(folder: TaskFolder, name: str) -> Path:
    return Path(folder.artifacts, name)


def test_folders_are_private(folder: TaskFolder) -> None:
    for path in (folder.path, folder.artifacts, folder.run_folder(1), folder.make_work()):
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o700, path
    folder.make(run=1)  # a second time


def test_task_id_cannot_name_a_folder_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        TaskFolder(Home(str(tmp_path)), "../x")


def test_link_in_place_of_a_folder_is_refused(folder: TaskFolder, tmp_path: Path) -> None:
    artifact(folder, ".").rmdir()
    Path(folder.artifacts).symlink_to(tmp_path)
    with pytest.raises(OSError):
        folder.make()
    (tmp_path / "result.json").write_text(json.dumps(RESULT))
    assert folder.result_json() is None


def test_task_json_is_a_readable_copy_of_the_task(folder: TaskFolder) -> None:
    task = a_task(id="fleet-1", title="paint it", description=f"with {SECRET}", cwd="/project", priority=1)
    folder.write_task_json(task, "demo", "demo-1", depends_on=["fleet-0"])
    copy = json.loads(Path(folder.path, "task.json").read_text())
    assert Path(folder.path, "prompt.txt").read_text() == copy["description"]
    assert copy["title"] == "paint it"
    assert copy["description"] == f"with {MARK}"
    assert (copy["cwd"], copy["coder"], copy["model"], copy["priority"]) == ("/project", "demo", "demo-1", 1)
    assert copy["depends_on"] == ["fleet-0"]
    assert folder.read_task_json() == Edits({})


@pytest.mark.parametrize(
    ("field", "value"), [("cwd", "/elsewhere"), ("coder", "claude"), ("model", "opus"), ("model", ""), ("model", None)]
)
def test_task_json_shows_manual_changes(folder: TaskFolder, field: str, value: str | None) -> None:
    folder.write_task_json(a_task(id="fleet-1", cwd="/project"), "demo", "demo-1")
    path = Path(folder.path, "task.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {field: value, "title": "not taken", "status": "closed"}))
    assert folder.read_task_json() == Edits({field: value or ""})


def test_manually_written_task_json_counts_as_changed(folder: TaskFolder) -> None:
    Path(folder.path, "task.json").write_text('{"cwd": "/mine", "coder": "codex"}')
    assert folder.read_task_json() == Edits({"cwd": "/mine", "coder": "codex"})


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '"x"', '{"cwd": 5}', '{"cwd": "here"}', '{"coder": "a\\nb"}', "[" * 100_000, '{"as_written": 3}'],
)
def test_broken_task_json_changes_nothing_and_is_set_aside(folder: TaskFolder, text: str) -> None:
    Path(folder.path, "task.json").write_text(text)
    found = folder.read_task_json()
    assert found.fields == {}
    folder.write_task_json(a_task(id="fleet-1"), "demo", "")
    if text != '{"as_written": 3}':
        assert found.problem
        (said,) = [line for line in lines(folder, "log.jsonl") if line["event"] == "task_json_put_aside"]
        assert Path(folder.path, said["file"]).read_text() == text


def test_task_json_does_not_write_through_a_link(folder: TaskFolder, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    Path(folder.path, "task.json").symlink_to(tmp_path / "precious")
    assert folder.read_task_json().fields == {}
    folder.write_task_json(a_task(id="fleet-1"), "demo", "")
    assert (tmp_path / "precious").read_text() == "mine"
    assert json.loads(Path(folder.path, "task.json").read_text())["coder"] == "demo"
    assert not [path for path in Path(folder.path).iterdir() if path.name.endswith(".tmp")]


def test_events_have_the_documented_form(folder: TaskFolder) -> None:
    folder.append_events([Event(kind=Kind.SESSION_STARTED, session="s1")], NOON)
    folder.append_events([Event(kind=Kind.TEXT, text=f"hello {SECRET}")], NOON)
    folder.append_events([Event(kind=Kind.TOOL_USE, tool="bash", tool_id="t", data={"cmd": ["ls"]})], NOON)
    folder.append_events([Event(kind=Kind.USAGE, usage=Usage(input=1, cache_read=3), context=9, cost_usd=0.0)], NOON)
    folder.append_events([Event(kind=Kind.LIMIT, limit=Limit(kind="rate", resets_at=NOON))], NOON)
    folder.append_events([Event(kind=Kind.RESULT, ok=False)], NOON, run=2)
    written = lines(folder, "events.jsonl")
    kinds = ["session_started", "assistant_text", "tool_use", "usage", "rate_limit", "session_ended"]
    assert [line["kind"] for line in written] == kinds
    assert all({"kind", "ts", "session_id", "tool_name", "usage", "rate_info"} <= set(line) for line in written)
    assert (written[0]["session_id"], written[0]["ts"]) == ("s1", NOON.isoformat())
    assert written[1]["text"] == f"hello {MARK}"
    assert (written[2]["tool_name"], written[2]["data"]) == ("bash", {"cmd": ["ls"]})
    assert written[3]["usage"]["cache_read_input_tokens"] == 3
    assert (written[3]["context"], written[3]["cost_usd"]) == (9, 0.0)
    assert written[4]["rate_info"] == {"usage_pct": None, "resets_at": NOON.isoformat(), "status": "rate"}
    assert (written[5]["ok"], written[5]["run"]) == (False, 2)


def test_event_is_written_without_the_secrets_of_its_run(folder: TaskFolder) -> None:
    folder.append_events(
        [Event(kind=Kind.TEXT, text="x" * 16_380 + "another-secret")], NOON, Redactor(["another-secret"])
    )
    (line,) = lines(folder, "events.jsonl")
    assert "anot" not in line["text"]


def test_event_of_any_size_and_shape_is_one_bounded_line(folder: TaskFolder) -> None:
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    hostile = {
        "deep": deep,
        "nan": float("nan"),
        "huge": 10**400,
        "half": "\ud800",
        "many": list(range(100_000)),
        5: b"x",
    }
    folder.append_events([Event(kind=Kind.TOOL_USE, text="x\n" * 1_000_000, data=hostile)], NOON)  # type: ignore[arg-type]
    (line,) = lines(folder, "events.jsonl")
    assert len(json.dumps(line)) < 100_000
    assert "Infinity" not in json.dumps(line) and "NaN" not in json.dumps(line)


def test_many_events_are_written_together_and_in_order(folder: TaskFolder) -> None:
    folder.append_events(
        (Event(kind=Kind.TEXT, text=f"{number} {SECRET} " + "x" * 5000) for number in range(500)), NOON
    )
    folder.append_events([], NOON)
    assert [line["text"].split()[:2] for line in lines(folder, "events.jsonl")] == [[str(n), MARK] for n in range(500)]


def test_log_lines_have_a_time_and_a_subject(folder: TaskFolder) -> None:
    folder.log("subprocess_started", run="fleet-1/1", argv=["demo", SECRET])
    (line,) = lines(folder, "log.jsonl")
    assert line["ts"] == NOON.isoformat()
    assert (line["event"], line["task_id"], line["argv"]) == ("subprocess_started", "fleet-1", ["demo", MARK])


def test_each_log_is_bounded_and_one_older_file_kept(folder: TaskFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "LOG_CAP", 20_000)
    for number in range(1000):
        folder.log("e", number=number)
        folder.append_events([Event(kind=Kind.TEXT, text=str(number))], NOON)
        folder.append_stderr(f"{number}\n" + "x" * 200 + "\n")
    for name in ("log.jsonl", "events.jsonl", "log.stderr"):
        assert Path(folder.path, name).stat().st_size <= 20_000
        assert Path(folder.path, name + ".1").stat().st_size <= 20_000
        assert not Path(folder.path, name + ".2").exists()
    numbers = [line["number"] for name in ("log.jsonl.1", "log.jsonl") for line in lines(folder, name)]
    assert numbers == list(range(numbers[0], 1000))


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_foreign_file_in_place_of_a_log_is_set_aside(folder: TaskFolder, tmp_path: Path, kind: str) -> None:
    path = Path(folder.path, "events.jsonl")
    (tmp_path / "precious").write_text("mine")
    if kind == "link":
        path.symlink_to(tmp_path / "precious")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    folder.append_events([Event(kind=Kind.TEXT, text="on it goes")], NOON)
    assert lines(folder, "events.jsonl")[0]["text"] == "on it goes"
    assert (tmp_path / "precious").read_text() == "mine"


def test_partial_line_is_never_left(folder: TaskFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.log("first")
    real, calls = os.write, iter([True, False])

    def full(handle: int, data: Any) -> int:
        if next(calls):
            return real(handle, bytes(data)[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            folder.log("second")
    folder.log("third")
    assert [line["event"] for line in lines(folder, "log.jsonl")] == ["first", "third"]


def test_stderr_is_copied_redacted(folder: TaskFolder) -> None:
    raw = Path(folder.run_folder(1), "stderr")
    raw.write_bytes(f"oh no: {SECRET}\n".encode() + b"\xff\0\nunended")
    folder.take_stderr(str(raw))
    assert Path(folder.path, "log.stderr").read_text() == f"oh no: {MARK}\n�\nunended\n"
    assert folder.stderr_tail().endswith("unended\n")
    folder.take_stderr(str(raw) + "-none")
    assert folder.stderr_tail().endswith("unended\n")


def test_end_of_a_long_stderr_is_kept(folder: TaskFolder) -> None:
    raw = Path(folder.run_folder(1), "stderr")
    raw.write_bytes(b"".join(b"line %d\n" % number for number in range(400_000)))
    folder.take_stderr(str(raw))
    kept = Path(folder.path, "log.stderr").read_text().splitlines()
    assert (kept[0], kept[-1]) == ("[…]", "line 399999")
    assert sum(map(len, kept)) < 1_100_000
    assert all(line.startswith("line ") for line in kept[1:])


def test_output_kept_by_the_shim_beyond_its_limit_is_included(folder: TaskFolder) -> None:
    raw = Path(folder.run_folder(1), "stderr")
    raw.write_text("first\n")
    raw.with_name("stderr.tail").write_text("last\n")
    folder.take_stderr(str(raw))
    assert folder.stderr_tail() == "first\nlast\n"


def test_secret_at_a_cut_is_not_shown_in_part(folder: TaskFolder) -> None:
    raw = Path(folder.run_folder(1), "stderr")
    raw.write_bytes(b"x" * 500_000 + b"\n" + SECRET.encode() + b" here\n" + b"y\n" * (1024 * 512 - 9))
    folder.take_stderr(str(raw))
    told = Path(folder.path, "log.stderr").read_text()
    assert told.startswith("[…]\ny\n") and "battery" not in told


def test_private_key_split_over_reads_is_removed(folder: TaskFolder) -> None:
    body = [f"{number:04}" * 16 for number in range(20)]
    key = ["-----BEGIN RSA PRIVATE KEY-----", *body, "-----END RSA PRIVATE KEY-----"]
    for line in ["before", *key, "after: all is well"]:
        folder.append_stderr(line + "\n")
    told = Path(folder.path, "log.stderr").read_text()
    assert not [line for line in body if line in told]
    assert told.startswith("before\n") and told.endswith("after: all is well\n")


RESULT = {
    "summary": "did it",
    "files_changed": ["a.py"],
    "tests": [{"command": "pytest", "status": "passed", "details": ""}],
    "commits": ["abc"],
    "next_steps": [],
    "status": "completed",
}


def test_valid_result_is_accepted(folder: TaskFolder) -> None:
    assert folder.result_json() is None
    artifact(folder, "result.json").write_text(json.dumps(RESULT))
    result = folder.result_json()
    assert result is not None
    assert (result.status, result.summary, result.files_changed) == ("completed", "did it", ("a.py",))
    assert result.tests[0]["status"] == "passed"


def test_result_of_an_earlier_run_is_ignored(folder: TaskFolder) -> None:
    path = artifact(folder, "result.json")
    path.write_text(json.dumps(RESULT))
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    assert folder.result_json(since=written - timedelta(seconds=1)) is not None
    assert folder.result_json(since=written) is not None
    assert folder.result_json(since=written + timedelta(seconds=1)) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[]", "[" * 100_000, '{"status": "completed"}', '{"summary": "x", "status": "great"}'),
        *(json.dumps(RESULT | {"files_changed": "a.py"}), json.dumps(RESULT | {"commits": [5]})),
        *(json.dumps(RESULT | {"tests": [{"status": "perhaps"}]}), json.dumps(RESULT | {"summary": "x" * 1_100_000})),
        *(json.dumps(RESULT | {"status": []}), json.dumps(RESULT | {"tests": {}}), "\ufeff" + json.dumps(RESULT)),
    ],
)
def test_invalid_result_is_reported_and_not_accepted(folder: TaskFolder, text: str) -> None:
    artifact(folder, "result.json").write_text(text)
    assert folder.result_json() is None
    assert lines(folder, "log.jsonl")[-1]["event"] == "result_json_not_used"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_result_that_is_no_regular_file_is_not_accepted(folder: TaskFolder, tmp_path: Path, kind: str) -> None:
    (tmp_path / "elsewhere").write_text(json.dumps(RESULT))
    path = artifact(folder, "result.json")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert folder.result_json() is None


QA = """# Questions

## Q: Which colour?

Red or blue; the logo is blue.

## A: 2026-01-02 10:30

Blue.

## Q: Which size?
"""


def test_questions_are_read_with_their_answers(folder: TaskFolder) -> None:
    assert folder.questions() == []
    artifact(folder, "Q&A.md").write_text(QA)
    first, second = folder.questions()
    assert (first.text, first.answer) == ("Which colour?\n\nRed or blue; the logo is blue.", "Blue.")
    assert (second.text, second.is_open) == ("Which size?", True)
    assert folder.open_questions()[0] == ["Which size?"]


def test_answer_is_written_below_its_question(folder: TaskFolder) -> None:
    artifact(folder, "Q&A.md").write_text(QA)
    assert folder.append_answer("Which size?", "Large.\n\nAs ever.", NOON)
    assert artifact(folder, "Q&A.md").read_text() == QA + "\n## A: 2026-03-01 12:00\n\nLarge.\n\nAs ever.\n"
    assert folder.open_questions()[0] == []
    assert not folder.append_answer("Which size?", "Small.", NOON)
    assert "Small" not in artifact(folder, "Q&A.md").read_text()


def test_answer_in_the_middle_changes_no_other_byte(folder: TaskFolder) -> None:
    text = b"## Q: One?\r\n\xff odd\r\n## Q: Two?\nx"
    artifact(folder, "Q&A.md").write_bytes(text)
    assert folder.append_answer("One?", "yes", NOON)
    written = artifact(folder, "Q&A.md").read_bytes()
    assert written == b"## Q: One?\r\n\xff odd\r\n\n## A: 2026-03-01 12:00\n\nyes\n\n## Q: Two?\nx"
    assert folder.open_questions()[0] == ["Two?\nx"]


def test_question_from_another_source_is_written_with_its_answer(folder: TaskFolder) -> None:
    assert folder.append_answer("May I?\nmore", "You may.", NOON)
    (asked,) = folder.questions()
    assert (asked.text, asked.answer) == ("May I?", "You may.")


def test_answer_that_looks_like_a_question_stays_an_answer(folder: TaskFolder) -> None:
    artifact(folder, "Q&A.md").write_text("## Q: Why?\n")
    folder.append_answer("Why?", "Because\n## Q: really?\n## A: yes", NOON)
    (asked,) = folder.questions()
    assert "## Q: really?" in asked.answer


@pytest.mark.parametrize("answer", ["## A: 2026-01-01\n", "## A:\n", "## A: 2026-01-01 10:00\n\n\n"])
def test_answer_placeholder_is_no_answer(answer: str) -> None:
    assert questions_file.questions("## Q: Why?\n" + answer)[0].is_open
    assert not questions_file.questions("## Q: Why?\n" + answer + "So.")[0].is_open


def test_answer_on_the_heading_line_counts() -> None:
    assert questions_file.questions("## Q: Why?\n## A: so\n")[0].answer == "so"


NOTE = "> withdrawn 2026-03-01 12:00: its work was cancelled before an answer\n"


def test_withdrawn_question_has_no_answer_and_can_be_asked_again(folder: TaskFolder) -> None:
    path = artifact(folder, "Q&A.md")
    path.write_text(QA)
    folder.withdraw_question("Which size?", NOON)
    assert path.read_text() == QA + "\n" + NOTE
    assert folder.open_questions()[0] == ["Which size?"], "the note is no part of it"
    folder.withdraw_question("Which colour?", NOON)
    folder.withdraw_question("Which shape?", NOON)
    assert path.read_text() == QA + "\n" + NOTE, "what has its answer, or is not there, stays so"
    with path.open("a") as file:
        file.write("## Q: Which size?\nI ask again.\n")
    assert folder.open_questions()[0] == ["Which size?\nI ask again."], "what is asked twice is one question"
    assert folder.append_answer("Which size?", f"Large.\n{NOTE}", NOON)
    assert folder.open_questions()[0] == [] and folder.questions()[-1].answer == f"Large.\n\\{NOTE.strip()}"


@pytest.mark.parametrize("place", ["", "## A:\n", "## A: 2026-01-01\n\n"])
def test_withdrawal_note_is_never_an_answer(folder: TaskFolder, place: str) -> None:
    path = artifact(folder, "Q&A.md")
    path.write_text(f"## Q: Why?\n{place}\n## Q: And how?\nx")
    folder.withdraw_question("Why?", NOON)
    assert NOTE in path.read_text() and folder.open_questions()[0] == ["Why?", "And how?\nx"]
    assert folder.append_answer("Why?", "So.", NOON)
    assert [each.answer for each in folder.questions()] == ["So.", ""]


def test_half_surrogate_pairs_in_an_answer_are_harmless(folder: TaskFolder) -> None:
    assert folder.append_answer("Which\ud800?", "this\ud800\0", NOON)
    assert folder.questions()[0].answer == "this?"


def test_huge_question_file_is_bounded_and_answered(folder: TaskFolder) -> None:
    path = artifact(folder, "Q&A.md")
    path.write_text("## Q: x\n" * 300_000)
    assert len(folder.questions()) <= 200
    assert folder.append_answer("x", "enough", NOON)
    assert path.read_text().endswith("enough\n")


@given(st.text(alphabet="#QqAa: \n\r12-\u2028\x0bx", max_size=80), st.text(max_size=20), st.text(max_size=30))
def test_any_text_can_be_answered_without_loss(text: str, question: str, answer: str) -> None:
    written, is_new = questions_file.with_answer(text, question, answer, NOON)
    if not is_new:
        assert written == text
        return
    remains = iter(written)
    assert all(char in remains for char in text)
    assert len(questions_file.questions(written)) - len(questions_file.questions(text)) in (0, 1)


@given(st.text(alphabet="#QqAa: \n\r12-\u2028\x0bx", max_size=80))
@example("## Q: x\n1\n## Q: x\n2")
def test_withdrawal_of_any_text_loses_answers_and_asks_nothing(text: str) -> None:
    before = questions_file.questions(text)
    for each in before:
        written = questions_file.with_withdrawal(text, each.text, NOON)
        remains = iter(written)
        assert all(char in remains for char in text)
        after = {(asked.text, asked.answer) for asked in questions_file.questions(written)}
        assert after <= {(asked.text, asked.answer) for asked in before}


def test_complaint_is_outdated_when_output_follows(tmp_path: Path) -> None:
    folder = TaskFolder(Home(str(tmp_path)), "t")
    tmp_path.joinpath("tasks").mkdir()
    folder.make(1)
    out, err = (Path(folder.run_folder(1), name) for name in ("stdout", "stderr"))
    assert folder.complaint(1) == ""
    err.write_text("x" * 9000 + "Retrying after 1000ms")
    assert folder.complaint(1).endswith("Retrying after 1000ms") and len(folder.complaint(1)) == 2048
    out.touch()
    os.utime(out, ns=(0, err.stat().st_mtime_ns - 1))
    assert folder.complaint(1)
    os.utime(out, ns=(0, err.stat().st_mtime_ns))
    assert folder.complaint(1) == ""


def test_lines_of_a_file_are_read_one_by_one_within_bounds(tmp_path: Path) -> None:
    files = AgentFiles(str(tmp_path), "task")
    files.make()
    assert (list(files.lines("log", 100)), files.changed_at("log")) == ([], None)
    files.append("log", b"one\ntwo\r\nthree\nfour")
    assert list(files.lines("log", 100)) == [b"one", b"two", b"three", b"four"]
    assert list(files.lines("log", 7, offset=4)) == [b"two", b"th"]
    files.append("long", b"x" * (LONGEST_LINE + 5) + b"\n")
    assert [len(part) for part in files.lines("long", 2 * LONGEST_LINE)] == [LONGEST_LINE, 5]
