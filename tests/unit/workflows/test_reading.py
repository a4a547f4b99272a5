"""Workflow files in three formats: the same data, the position of each value, and size limits."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.errors import BadInput
from fleet.workflows.faults import BadWorkflow, FilePosition
from fleet.workflows.faults import Path as Way
from fleet.workflows.reading import LARGEST, json_text, read, toml_text, yaml_text
from fleet.workflows.reading.tree import DEEPEST, DataTree, Malformed
from flows import MADE_UP, faults_in_file, plan_in_file

JSON = """{
  "name": "x",
  "stages": [
    {"name": "a", "prompt": "p", "depends_on": []},
    {"name": "b", "prompt": "p",
      "depends_on": [0, "a"]}
  ]
}
"""
TOML = """name = "x"   # a comment with [brackets] and "quotes"

[[stages]]
name = "a"
prompt = '''
[[stages]]
name = "not one"
'''

[[stages]]
name = "b"
prompt = "p # not a comment"
depends_on = [
    0,  # the first
    "a",
]
repeat = { at_most = 2, until = "verify" }
"""
YAML = """# a comment
name: x
stages:
  - name: a
    prompt: |
      name: not one
  - {name: b, prompt: p, depends_on: [0, a]}
"""


def ways(data: Any, above: Way = ()) -> set[Way]:
    """Return the path to each value in the data."""
    found = {above}
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in inner:
        found |= ways(value, (*above, name))
    return found


def test_json_values_have_positions() -> None:
    tree = json_text.read(JSON)
    assert tree.data == json.loads(JSON)
    assert tree.values["stages", 1, "depends_on", 1] == FilePosition(6, 25)
    assert tree.values["stages", 1] == FilePosition(5, 5)
    assert tree.keys["stages", 1, "depends_on"] == FilePosition(6, 7)
    assert set(tree.values) == ways(tree.data)


def test_yaml_values_have_positions() -> None:
    tree = yaml_text.read(YAML)
    assert tree.data == yaml.safe_load(YAML)
    assert tree.values["stages", 0, "prompt"] == FilePosition(5, 13)
    assert tree.values["stages", 1, "depends_on", 1] == FilePosition(7, 42)
    assert tree.keys["stages", 1, "prompt"] == FilePosition(7, 15)
    assert set(tree.values) == ways(tree.data)


TEXTS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=12)
VALUES = st.recursive(
    st.integers(-(2**53), 2**53) | st.booleans() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
TABLES = st.dictionaries(TEXTS, VALUES, max_size=5)


@MADE_UP
@given(VALUES, st.sampled_from([None, 0, 3]))
def test_json_is_parsed_as_by_the_json_module(data: Any, indent: int | None) -> None:
    assert json_text.read(json.dumps(data, indent=indent)).data == data
    tree = json_text.read(json.dumps(data, indent=indent, ensure_ascii=False))
    assert tree.data == data
    assert set(tree.values) == ways(data)


@pytest.mark.parametrize(
    "text", ['{\t"a" :1,\n\t"b":[]}', '{"a":"\\ud83d\\ude00\x7f\\u0000\\/\\"",\n "b":[]}', '{"a":-1e-7,\n "b":{}}']
)
def test_each_json_value_has_a_position(text: str) -> None:
    tree = json_text.read(text)
    assert tree.data == json.loads(text)
    assert tree.keys["b",] == FilePosition(2, 2) and tree.values["b",] == FilePosition(2, 6)


def test_json_that_is_no_yaml_is_parsed_without_positions() -> None:
    assert json_text.read('{"a"\n: {"b": 1}}').data == {"a": {"b": 1}}
    with pytest.raises(Malformed, match="a key occurs twice among 'b', 'b'"):
        json_text.read('{"a"\n: {"b": 1, "b": 2}}')


@MADE_UP
@given(TABLES)
def test_toml_is_parsed_as_by_tomllib(data: dict[str, Any]) -> None:
    text = tomlkit.dumps(data)
    assert toml_text.read(text).data == tomllib.loads(text)


@MADE_UP
@given(VALUES)
def test_yaml_is_parsed_as_written(data: Any) -> None:
    tree = yaml_text.read(
        yaml.safe_dump(data, allow_unicode=True, default_style='"' if isinstance(data, str) else None)
    )
    assert set(tree.values) == ways(tree.data)
    assert ways(tree.data) == ways(data)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("no", "no"), ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("0123", 123), ("true", True), ("~", None)),
        *(("1.5", 1.5), ("1e3", 1000.0), ("'1'", "1"), ("! 1", "1"), ("!!str 1", "1"), ("0x1f", "0x1f"), ("", None)),
    ],
)
def test_yaml_word_has_one_meaning(text: str, value: object) -> None:
    found = yaml_text.read(f"key: {text}\n").data["key"]
    assert (found, type(found)) == (value, type(value))


def test_yaml_alias_is_expanded() -> None:
    tree = yaml_text.read("a: &x [1, {b: 2}]\nc: *x\n")
    assert tree.data["c"] == [1, {"b": 2}]
    assert tree.values["c",] == FilePosition(2, 4)


def lol(read_text: str) -> str:
    lines = ["a0: &a0 [x, x]"]
    return "\n".join([*lines, *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 64)), read_text])


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (json_text.read, '{"a": }', "expecting value"),
        (json_text.read, '{"a": 1,}', "property name|trailing comma"),
        (json_text.read, '{"a" 1}', "expecting ':' delimiter"),
        (json_text.read, "[1 2]", "expecting ',' delimiter"),
        (json_text.read, '{"a": 1} x', "extra data"),
        (json_text.read, '{"a": NaN}', "nan is not json"),
        (json_text.read, '{"a": "x', "unterminated string starting at"),
        (json_text.read, "[" * 1000 + "]" * 1000, f"nested more than {DEEPEST} deep"),
        (json_text.read, "[" + "9" * 5000 + "]", "exceeds the limit"),
        (toml_text.read, "a = ", "invalid value"),
        (toml_text.read, "a = 1\na = 2\n", "cannot overwrite a value"),
        (toml_text.read, "a = " + "[" * 1000 + "]" * 1000, f"nested more than {DEEPEST} deep"),
        (toml_text.read, ".".join(["a"] * 300_000) + " = 1", f"nested more than {DEEPEST} deep"),
        (toml_text.read, "[" + ".".join(["a"] * 300_000) + "]", f"nested more than {DEEPEST} deep"),
        (toml_text.read, "x = {" + "'=' . " * 100_000 + "a = 1}", f"nested more than {DEEPEST} deep"),
        (toml_text.read, "a = [" + "1," * 200_000 + "]", "more than 200000 values"),
        (yaml_text.read, "a: [1", "expected ',' or ']'"),
        (yaml_text.read, "a: b: c", "mapping values are not allowed"),
        (yaml_text.read, "a: !!python/object/apply:os.system [id]", "the tag 'tag:yaml.org,2002:python/object"),
        (
            yaml_text.read,
            "a: !!python/name:os.system ''",
            "the tag 'tag:yaml.org,2002:python/name:os.system' is not supported",
        ),
        (yaml_text.read, "a: !mine 1", "the tag '!mine' is not supported"),
        (yaml_text.read, "a: *nope", "no anchor 'nope' before this"),
        (yaml_text.read, "a: &x [*x]", "no anchor 'x' before this"),
        (yaml_text.read, "? [a]\n: 1", "a key is not a word"),
        (yaml_text.read, "a: 1\n---\nb: 2\n", "a second document begins"),
        (yaml_text.read, "[" * 1000 + "]" * 1000, f"nested more than {DEEPEST} deep"),
        (yaml_text.read, lol("b: *a63"), "values"),
        (yaml_text.read, "a: \x07", "special characters are not allowed|control characters are not allowed"),
    ],
)
def test_malformed_or_oversized_file_is_refused(reader: Any, text: str, message: str) -> None:
    with pytest.raises(Malformed, match=message.replace("[", r"\[").replace("]", r"\]")) as caught:
        reader(text)
    assert caught.value.place.line >= 1


def test_many_aliases_are_refused_before_expansion() -> None:
    text = "a: &a [" + ", ".join(["1"] * 1000) + "]\nb: [" + ", ".join(["*a"] * 1000) + "]\n"
    with pytest.raises(Malformed, match="more than 200000 values"):
        yaml_text.read(text)


def test_file_of_only_comments_is_refused(tmp_path: Path) -> None:
    assert faults_in_file(tmp_path, "x.yaml", "# nothing\n") == ["1:1: a workflow is a table of keys, not null"]
    assert faults_in_file(tmp_path, "x.json", "[]") == ["1:1: a workflow is a table of keys, not []"]


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("x.json", '{\n "name": "a",\n "name": "b", "stages": []}', "3:2: key 'name' occurs twice"),
        ("x.yaml", "name: a\nstages: []\nname: b\n", "3:1: key 'name' occurs twice"),
        ("x.toml", 'name = "a"\nname = "b"\n', "2:11: cannot overwrite a value"),
    ],
)
def test_duplicate_key_is_a_fault(tmp_path: Path, name: str, text: str, fault: str) -> None:
    assert fault in faults_in_file(tmp_path, name, text)


def test_all_three_formats_give_the_same_plan(tmp_path: Path) -> None:
    data = json.loads(JSON)
    toml, yml = tomlkit.dumps(data), yaml.safe_dump(data)
    plans = [plan_in_file(tmp_path, name, text) for name, text in [("x.json", JSON), ("x.toml", toml), ("x.yml", yml)]]
    assert plans[0] == plans[1] == plans[2]
    assert plans[0].stage("b").needs == ("a",)


def test_unsupported_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "large.json").write_bytes(b" " * (LARGEST + 1))
    for name, message in [
        ("x.txt", "is no workflow file"),
        ("none.json", "cannot read .*none.json': No such file"),
        ("pipe.json", "is not a regular file"),
        ("folder.json", "is not a regular file"),
        ("large.json", "larger than 1024 KiB"),
        ("nul\0.json", "cannot read"),
    ]:
        with pytest.raises(BadInput, match=message):
            read(str(tmp_path / name))


def test_invalid_bytes_are_reported_with_their_position(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b'name = "a"\nb = "\xff"\n')
    with pytest.raises(BadWorkflow, match=r"x.toml:2:6: not UTF-8 text"):
        read(str(tmp_path / "x.toml"))


def test_windows_line_ends_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + TOML.replace("\n", "\r\n").encode()
    (tmp_path / "x.toml").write_bytes(data)
    assert read(str(tmp_path / "x.toml")).data == tomllib.loads(TOML)


def test_columns_are_counted_from_one() -> None:
    tree = DataTree("ab\n\ncd")
    assert [tree.place(at) for at in (0, 1, 3, 4, 5)] == [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]
