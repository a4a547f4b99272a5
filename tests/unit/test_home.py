"""The home: its path, the reasons to refuse it, and its programs."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fleet.core.errors import BadInput, FleetError, HomeMissing, HomeRefused
from fleet.files import atomic_write
from fleet.home import Home, file_system, find, find_project, project_files, refuse_file_system, write_programs

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:40 / /home rw,relatime shared:1 - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/me/local\\040disk rw - xfs /dev/vdb rw
32 27 0:42 / /mnt/s3 rw - fuse.s3fs s3fs rw
33 27 0:43 / /mnt/c rw - 9p C: rw
34 27 0:44 / /srv rw - ext4 /dev/vdc rw
35 34 0:45 / /srv rw - cifs //nas/share rw
36 27 0:46 / /box rw - fuse.fuse-overlayfs overlay rw
"""


def mode(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"FLEET_HOME": "/a", "FLEET_BASE_DIR": "/b"}, "/a"),
        ({"FLEET_HOME": "", "FLEET_BASE_DIR": "/b"}, "/b"),
        ({"FLEET_HOME": "", "FLEET_BASE_DIR": ""}, "/users/me/.fleet"),
        ({"FLEET_HOME": "~/x"}, "/users/me/x"),
        ({"FLEET_HOME": "/a/../b/"}, "/b"),
    ],
)
def test_home_is_the_first_variable_that_is_set(
    env: dict[str, str], root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/users/me")
    assert find(env).root == root


def test_relative_home_is_made_absolute_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find({"FLEET_HOME": "here"}).root == str(tmp_path / "here")


def test_new_home_has_private_folders_with_any_umask(home: Home) -> None:
    old = os.umask(0o777)
    try:
        assert home.make() is True
    finally:
        os.umask(old)
    assert [mode(path) for path in (home.root, home.tasks, home.bin, home.logging)] == [0o700] * 4


def test_creating_a_home_twice_changes_nothing(home: Home) -> None:
    home.make()
    assert home.make() is False


def test_creating_a_home_makes_readable_folders_private(home: Home) -> None:
    home.make()
    Path(home.root).chmod(0o755)
    assert home.make() is True
    assert mode(home.root) == 0o700


@pytest.mark.parametrize("loose", [0o770, 0o702, 0o777, 0o720])
def test_home_writable_by_others_is_refused_with_a_remedy(home: Home, loose: int) -> None:
    home.make()
    Path(home.root).chmod(loose)
    for call in (home.check, home.make, home.require):
        with pytest.raises(HomeRefused, match="written by other users") as refused:
            call()
        assert f"chmod 700 '{home.root}'" in refused.value.hint


def test_home_behind_a_link_is_judged_by_its_target(home: Home, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    Path(home.root).symlink_to(real)
    home.make()
    assert (real / "tasks").is_dir()
    real.chmod(0o777)
    with pytest.raises(HomeRefused):
        home.check()


def test_home_that_is_a_file_or_below_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for root in (file, file / "below"):
        with pytest.raises(HomeRefused, match=str(file)):
            Home(str(root)).make()
    assert file.read_text() == "mine"


def test_home_whose_path_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HomeRefused, match="not UTF-8"):
        Home(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).make()
    assert list(tmp_path.iterdir()) == []


def test_dangling_link_is_refused(home: Home) -> None:
    Path(home.root).symlink_to("/nonexistent/place")
    with pytest.raises(HomeRefused):
        home.make()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_home_of_another_user_is_refused() -> None:
    code = "import os, sys; from fleet.home import Home; os.setuid(1234); Home(sys.argv[1]).check()"
    with tempfile.TemporaryDirectory() as folder:  # pytest's folders are private
        Path(folder).chmod(0o755)
        done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True)
    assert "HomeRefused" in done.stderr and "belongs to another user (uid 0)" in done.stderr


def test_missing_home_is_accepted_until_it_is_needed(home: Home) -> None:
    home.check()
    assert not home.exists
    with pytest.raises(HomeMissing, match=home.root):
        home.require()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/root/.fleet", "ext4"),
        ("/", "ext4"),
        ("/home/me/.fleet", "nfs4"),
        ("/home", "nfs4"),
        ("/homes", "ext4"),
        ("/home/me/local disk/fleet", "xfs"),
        ("/home/me/local", "nfs4"),
        ("/srv/x", "cifs"),
    ],
)
def test_file_system_is_that_of_the_longest_and_latest_mount(path: str, kind: str) -> None:
    assert file_system(path, MOUNTS) == kind


@pytest.mark.parametrize(("path", "kind"), [("/mnt/s3/x", "fuse.s3fs"), ("/mnt/c/x", "9p"), ("/srv/x", "cifs")])
def test_home_on_a_network_file_system_is_refused_by_name(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    with pytest.raises(HomeRefused, match=kind) as refused:
        refuse_file_system(path, str(tmp_path / "mounts"))
    assert "FLEET_HOME" in refused.value.hint


def test_local_and_unknown_file_systems_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    refuse_file_system("/box/home", str(tmp_path / "mounts"))
    refuse_file_system("/opt/home", str(tmp_path / "mounts"))
    refuse_file_system("/home/x", str(tmp_path / "absent"))


@pytest.mark.parametrize("task_id", ["", ".", "..", "../x", "a/b", "a\0b"])
def test_task_id_cannot_lead_out_of_its_folder(home: Home, task_id: str) -> None:
    with pytest.raises(BadInput):
        home.task(task_id)


def test_project_is_the_nearest_settings_file_or_repository(tmp_path: Path) -> None:
    home = Home(str(tmp_path / ".fleet"))
    (tmp_path / ".fleet").mkdir()
    (tmp_path / ".fleet" / "config.toml").touch()
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    assert find_project(str(repo), home) is None  # as in some sandboxes, where git finds no repository either
    (repo / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    inner = repo / "app"
    (inner / ".aifleet").mkdir(parents=True)
    (inner / ".aifleet" / "config.toml").touch()
    (inner / "src").mkdir()
    assert find_project(str(inner / "src"), home) == str(inner)
    assert find_project(str(repo), home) == str(repo)
    assert project_files(str(tmp_path), home) == [], "the home in ~ does not make ~ a project"


@pytest.mark.parametrize("name", ["plain", "with space", "it's", 'say "hi"', "$HOME `id`", "new\nline", "ü", "x" * 180])
def test_installed_programs_find_a_home_of_any_name(tmp_path: Path, name: str) -> None:
    home = Home(str(tmp_path / name))
    home.make()
    assert write_programs(home) is True
    assert write_programs(home) is False
    script = Path(home.bin, "bd").read_text()
    assert [mode(Path(home.bin, name)) for name in ("bd", "fleet")] == [0o700, 0o700]
    shown = script.replace("exec ", "printf '%s\\n' \"$FLEET_HOME\"; true ")
    done = subprocess.run(["sh", "-c", shown, "bd"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{home.root}\n"


def test_changed_program_is_written_again(home: Home) -> None:
    home.make()
    write_programs(home)
    good = Path(home.bin, "bd").read_bytes()
    Path(home.bin, "bd").write_text("#!/bin/sh\necho no\n")
    assert write_programs(home) is True
    assert Path(home.bin, "bd").read_bytes() == good


def test_file_is_replaced_atomically_with_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "file"
    old = os.umask(0o077)
    try:
        atomic_write(str(target), b"one")
        atomic_write(str(target), b"two", 0o644)
    finally:
        os.umask(old)
    assert target.read_bytes() == b"two" and mode(target) == 0o644
    assert list(tmp_path.iterdir()) == [target]


def test_link_stays_a_link_when_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    link = tmp_path / "runtime.toml"
    link.symlink_to(tmp_path / "dotfiles" / "fleet.toml")
    atomic_write(str(link), b"x")
    assert link.is_symlink() and (tmp_path / "dotfiles" / "fleet.toml").read_bytes() == b"x"


def test_failed_write_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=f"cannot write {tmp_path}/no/file"):
        atomic_write(str(tmp_path / "no" / "file"), b"x")
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(FleetError):
        atomic_write(str(tmp_path / "folder"), b"x")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_importing_the_home_is_cheap() -> None:
    heavy = "{'pathlib', 're', 'typing', 'dataclasses', 'json', 'tomllib', 'subprocess', 'click', 'msgspec'}"
    code = f"import sys; import fleet.home, fleet.cli.errors; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-S", "-c", _with_path(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _with_path(code: str) -> str:
    # Skip `site`, which imports many of these modules in an editable installation.
    source = Path(sys.modules["fleet"].__file__ or "").parents[1]
    return f"import sys; sys.path.insert(0, {str(source)!r}); {code}"
