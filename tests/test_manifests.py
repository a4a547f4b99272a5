"""The files of `deploy/`: units, manifests and jobs are valid, start an existing command, and hold no secret."""

import copy
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from fleet.core.redaction import Redactor
from fleet.settings import HOME
from fleet.settings.check import check
from needs import require
from program import Program, fleet

__all__ = ["fleet"]

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
SCHEMAS = Path(__file__).parent / "schemas"
UNIT = DEPLOY / "systemd" / "fleet.service"
HOWTO = ROOT / "docs" / "howto" / "run-on-many-machines.md"
#: The program, with schemas made from the API of Kubernetes; set by the Makefile.
VALIDATE = os.environ.get("FLEET_TEST_KUBERNETES", "")
JOB = DEPLOY / "nomad" / "fleet.nomad.json"

#: The keys of systemd that the unit may have, with the pattern of each value.
UNIT_KEYS = {
    "Unit": {
        "Description": r".+",
        "Wants": r"[\w@.-]+\.target",
        "After": r"[\w@.-]+\.target",
        "StartLimitIntervalSec": r"\d+",
    },
    "Service": {
        "Type": r"exec|notify|simple",
        "User": r"[a-z_][a-z0-9_-]*",
        "Group": r"[a-z_][a-z0-9_-]*",
        "StateDirectory": r"[a-z]+",
        "StateDirectoryMode": r"0700",
        "Environment": r"[A-Z_]+=\S+",
        "ExecStart": r"/\S+( \S+)*",
        "Restart": r"no|on-failure|always",
        "RestartSec": r"\d+",
        "TimeoutStopSec": r"\d+",
        "KillMode": r"process|mixed|control-group",
        "OOMPolicy": r"continue|stop|kill",
        "TasksMax": r"\d+|infinity",
        "LimitNOFILE": r"\d+",
        "NoNewPrivileges": r"yes|no",
        "ProtectSystem": r"yes|no|full|strict",
    },
    "Install": {"WantedBy": r"[\w-]+\.target"},
}
NEEDED = {"Unit": {"Description"}, "Service": {"Type", "ExecStart", "User", "KillMode"}, "Install": {"WantedBy"}}


def unit() -> dict[str, dict[str, str]]:
    """Return the unit, read strictly: no key twice, nothing outside a section."""
    found: dict[str, dict[str, str]] = {}
    section: dict[str, str] | None = None
    for line in UNIT.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if head := re.fullmatch(r"\[(\w+)\]", line):
            assert head[1] not in found
            section = found.setdefault(head[1], {})
            continue
        key, equals, value = line.partition("=")
        assert section is not None and equals and key not in section, line
        section[key] = value
    return found


def manifests() -> dict[str, dict[str, Any]]:
    """Return the objects for Kubernetes by kind, one of each."""
    files = sorted((DEPLOY / "kubernetes").glob("*"))
    parts = [part for file in files for part in yaml.safe_load_all(file.read_text("utf-8"))]
    assert len({part["kind"] for part in parts}) == len(parts) == len(files)
    return {part["kind"]: part for part in parts}


def job() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(JOB.read_text("utf-8"))
    return found


def faults(value: Any, schema: str) -> list[str]:
    """Return the faults of a value by one of our schemas."""
    rules = json.loads((SCHEMAS / f"{schema}.json").read_text("utf-8"))
    Draft202012Validator.check_schema(rules)
    if schema == "kubernetes" and value["kind"] in rules["$defs"]:  # the message of `oneOf` does not name the fault
        rules = {**rules, "oneOf": [{"$ref": f"#/$defs/{value['kind']}"}]}
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(rules).iter_errors(value)]


def pod() -> dict[str, Any]:
    found: dict[str, Any] = manifests()["DaemonSet"]["spec"]["template"]["spec"]
    return found


def test_unit_has_only_keys_of_systemd() -> None:
    found = unit()
    assert set(found) == set(UNIT_KEYS)
    for section, keys in found.items():
        assert set(keys) <= set(UNIT_KEYS[section]) and NEEDED[section] <= set(keys)
        for key, value in keys.items():
            assert re.fullmatch(UNIT_KEYS[section][key], value), f"{key}={value}"


def test_systemd_finds_no_fault_in_the_unit(tmp_path: Path) -> None:
    require(shutil.which("systemd-analyze"), "systemd-analyze verify")
    copied = tmp_path / "fleet.service"
    # The program is not at its final path.
    copied.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", UNIT.read_text("utf-8")))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copied)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "fleet.service" in line]) == (0, [])


def test_agents_outlive_a_restart_of_the_unit() -> None:
    assert unit()["Service"]["KillMode"] == "process"
    assert unit()["Service"]["OOMPolicy"] == "continue"


@pytest.mark.parametrize("kind", ["Namespace", "ConfigMap", "DaemonSet"])
def test_every_manifest_fits_its_schema(kind: str) -> None:
    assert faults(manifests()[kind], "kubernetes") == []


def validated(*files: Path) -> tuple[int, str]:
    """Return the result of Kubernetes' own schemas, which are those of its API without additional keys."""
    require(VALIDATE, "kubernetes-validate")
    words = [VALIDATE, "--strict", *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_every_manifest_fits_the_schemas_of_kubernetes(tmp_path: Path) -> None:
    files = sorted((DEPLOY / "kubernetes").glob("*"))
    code, told = validated(*files)
    assert code == 0 and told.count("passed") == len(files), told
    slipped = manifests()["DaemonSet"]
    slipped["spec"]["replicas"] = 3
    (tmp_path / "slip.yaml").write_text(yaml.safe_dump(slipped))
    code, told = validated(tmp_path / "slip.yaml")
    assert code == 1 and "replicas" in told


# No package registry has a schema of Nomad: ours covers the parts of its API's `Job` that this job may use, written
# from its documentation.
def test_job_fits_its_schema() -> None:
    assert faults(job(), "nomad") == []


SLIPS: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("DaemonSet", lambda it: it["spec"].pop("selector")),
    ("DaemonSet", lambda it: it["spec"].update(replicas=3)),
    ("DaemonSet", lambda it: it["spec"]["template"]["spec"].update(container=[])),
    ("DaemonSet", lambda it: it["spec"]["template"]["spec"]["containers"][0].update(command="fleet run")),
    ("DaemonSet", lambda it: it["spec"]["template"]["spec"]["containers"][0]["env"][0].update(value="twice")),
    ("DaemonSet", lambda it: it["spec"]["template"]["spec"]["nodeSelector"].update(host=True)),
    ("DaemonSet", lambda it: it["spec"]["template"]["spec"]["volumes"][2]["secret"].update(defaultMode="0440")),
    ("DaemonSet", lambda it: it["spec"]["template"]["spec"]["volumes"][0].update(emptyDir={})),
    ("DaemonSet", lambda it: it["metadata"].update(name="Fleet")),
    ("Namespace", lambda it: it.update(kind="Secret", stringData={"queue": "postgresql://me:secret@db/fleet"})),
    ("ConfigMap", lambda it: it["data"].update(slots=4)),
    ("nomad", lambda it: it["Job"].update(Type="service")),
    ("nomad", lambda it: it["Job"]["TaskGroups"][0].update(ReschedulePolicy={"Attempts": 1})),
    ("nomad", lambda it: it["Job"]["TaskGroups"][0]["Tasks"][0].update(KillTimeout="180s")),
    ("nomad", lambda it: it["Job"]["TaskGroups"][0]["Tasks"][0]["Templates"][0].update(Perms="0644")),
    ("nomad", lambda it: it["Job"]["TaskGroups"][0]["Tasks"][0]["Templates"][0].update(DestPath="local/queue.env")),
    ("nomad", lambda it: it["Job"]["TaskGroups"][0]["Tasks"][0].update(driver="exec")),
]


@pytest.mark.parametrize(("kind", "slip"), SLIPS, ids=[f"{kind}-{at}" for at, (kind, _) in enumerate(SLIPS)])
def test_schemas_detect_a_typing_error(kind: str, slip: Callable[[dict[str, Any]], object]) -> None:
    slipped = copy.deepcopy(job() if kind == "nomad" else manifests()[kind])
    slip(slipped)
    assert faults(slipped, "nomad" if kind == "nomad" else "kubernetes")


def test_parts_of_the_manifests_refer_to_each_other() -> None:
    found = manifests()
    spec = found["DaemonSet"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    namespaces = {part["metadata"]["namespace"] for kind, part in found.items() if kind != "Namespace"}
    assert namespaces == {found["Namespace"]["metadata"]["name"]}
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    containers = [*pod()["initContainers"], *pod()["containers"]]
    assert {mount["name"] for each in containers for mount in each["volumeMounts"]} == set(volumes)
    assert volumes["settings"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    made = f"create secret generic {volumes['queue']['secret']['secretName']} --from-file=queue="
    assert made in HOWTO.read_text("utf-8")  # the user creates the secret
    mounts = {mount["name"]: mount for mount in pod()["containers"][0]["volumeMounts"]}
    assert mounts["settings"]["subPath"] in found["ConfigMap"]["data"]
    said = {each["name"]: each.get("value") for each in pod()["containers"][0]["env"]}
    assert mounts["settings"]["mountPath"] == f"{said['FLEET_HOME']}/runtime.toml"
    assert mounts["home"]["mountPath"] == said["FLEET_HOME"]


def test_settings_of_the_manifests_are_valid() -> None:
    table = tomllib.loads(manifests()["ConfigMap"]["data"]["runtime.toml"])
    assert check(table, HOME).problems == []
    mounts = {mount["name"]: mount["mountPath"] for mount in pod()["containers"][0]["volumeMounts"]}
    assert Path(table["queue_command"][-1]).parent == Path(mounts["queue"])


def commands() -> Iterator[list[str]]:
    """Yield every `fleet …` command that these files run."""
    yield unit()["Service"]["ExecStart"].split()[1:]
    container = pod()["containers"][0]
    assert container["command"] == ["fleet"]
    yield container["args"]
    yield container["lifecycle"]["preStop"]["exec"]["command"][1:]
    yield job()["Job"]["TaskGroups"][0]["Tasks"][0]["Config"]["args"]


def test_commands_of_the_deployment_files_exist(fleet: Program) -> None:
    for words in commands():
        done = fleet(*words, "--help")
        assert done.code == 0 and done.out.startswith(f"Usage: fleet {words[0]}"), words
    assert fleet("run", "--slot", "4", "--nmae", "x", "--help").code == 2  # the check detects a typing error


def test_deployment_files_hold_no_secret() -> None:
    for file in (file for file in DEPLOY.rglob("*") if file.is_file()):
        text = file.read_text("utf-8")
        assert not re.search(r"postgres(ql)?://|password|api[_-]?key", text, re.IGNORECASE), file
        assert Redactor(()).redact(text) == text, file
