"""Effective settings: files and environment merged over the defaults, each value with its origin."""

import contextlib
import functools
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from fleet.core.accounts import accounts_of
from fleet.core.errors import WARNINGS, BadInput, FleetError
from fleet.core.ids import sha256
from fleet.files import atomic_write, read_small
from fleet.home import Home, find_project, project_files
from fleet.settings.check import CheckedSettings, Problem, check, check_value, convert_text, format_path
from fleet.settings.keys import HOME, KEYS, PROJECT, DeclaredSettings, Path, Permissions, Scope
from fleet.settings.sections import AccountSettings, CoderSettings
from fleet.settings.trusted import (
    Demand,
    digest,
    explain_unsafe,
    is_known_file,
    list_demands,
    raises_permissions,
    read_trusted_digests,
)

VARIABLES: dict[str, Path] = {
    "FLEET_CODER": ("coder",),
    "FLEET_MODEL": ("model",),
    "FLEET_PERMISSIONS": ("permissions",),
    "FLEET_PORT_BASE": ("ports", "base"),
    "FLEET_QUEUE": ("queue",),
    # codefleet's names, so that its users can keep their environment.
    "FLEET_RATE_LIMIT_MAX_RETRIES": ("limits", "rate_limit_retries"),
    "FLEET_RATE_LIMIT_BASE_DELAY": ("limits", "rate_limit_base_seconds"),
    "FLEET_RATE_LIMIT_MAX_DELAY": ("limits", "rate_limit_max_seconds"),
}
#: Variables that configure a supervisor. The others apply to the tasks that a caller creates.
OF_SUPERVISORS = tuple(name for name, path in VARIABLES.items() if path[0] in ("limits", "ports"))
#: May hold secrets, so their values are never logged.
_PRIVATE = ("env", "accounts", "queue")
CLAUDE = "claude"
RANKS = ("default", "runtime", "project", "environment")


class Origin(NamedTuple):
    """The origin of a value: one of RANKS, and its file or variable."""

    kind: str
    where: str

    def __str__(self) -> str:
        return self.where or self.kind

    @property
    def rank(self) -> int:
        return RANKS.index(self.kind)


DEFAULT = Origin("default", "")


class Settings(DeclaredSettings, frozen=True, kw_only=True):
    """All settings that apply in a directory and environment."""

    origins: dict[Path, Origin]
    """Origins of the values. A missing path has its default."""
    model_owner: str
    """The coder that `model` was set for. No other coder gets this model."""
    project_file: str = ""
    """The project file in effect. Empty if none is."""
    project_digest: str = ""
    """The digest of that file's content."""
    demands: tuple[str, ...] = ()
    """Settings of the project file that require the user's trust, each with its key."""
    untrusted: tuple[str, ...] = ()
    """Demands that the user has not trusted. Their settings are ignored."""

    def origin(self, key: str) -> Origin:
        """Return the origin of a key in dotted notation."""
        return next((origin for path, origin in self.origins.items() if format_path(path) == key), DEFAULT)


class SettingsLayer(NamedTuple):
    """The values of one file, or of the environment."""

    origin: Origin
    values: dict[Path, Any]
    ignored: tuple[str, ...] = ()
    digest: str = ""  # of a project file's content


def load(
    home: Home, directory: str | None = None, env: Mapping[str, str] | None = None, *, lenient: bool = False
) -> Settings:
    """Return the settings for this home, for work in `directory`, with this environment.

    Raises BadInput with a remedy. If `lenient`, an invalid file only causes a warning. The home's last valid settings
    then apply, and an invalid project file is ignored.
    """
    layers = [_of_home(home, lenient=lenient)] if os.path.lexists(home.settings) else []
    project = find_project(directory, home) if directory else None
    said = _environment(os.environ if env is None else env)
    wanted: list[Demand] = []
    file = content = ""
    untrusted: list[Demand] = []
    for path in project_files(project, home)[:1] if project else []:
        WARNINGS.pop(path, None)
        if why := explain_unsafe(project or "", path):
            WARNINGS[path] = f"{path} is ignored: {why}; to use it, own it and let no other user write it"
            continue
        try:
            layer = _layer("project", path, PROJECT)
        except BadInput as error:
            if not lenient:
                raise
            WARNINGS[path] = f"{error}; ignoring the file"
            continue
        before = merge([*layers, *said])
        file, wanted = path, list_demands(layer.values, functools.partial(get_default, before))
        known = read_trusted_digests(home, project) if wanted and project else frozenset()
        untrusted = [each for each in wanted if digest(each.line) not in known]
        untrusted = [] if untrusted and is_known_file(home, layer.digest) else untrusted
        content = layer.digest
        raised = [
            each for each in _find_raised_permissions(layer, before) if each not in {one.path for one in untrusted}
        ]
        layers.append(_without(layer, {*raised, *_skips(layer), *(each.path for each in untrusted)}))
        _warn(path, [each.path for each in untrusted], raised)
    layers += said
    held = merge(layers)
    lines = tuple(each.line for each in wanted), tuple(each.line for each in untrusted)
    return msgspec.structs.replace(
        held, project_file=file, project_digest=content, demands=lines[0], untrusted=lines[1]
    )


def get_default(settings: Settings, path: Path) -> Any:
    """Return the value of a setting without the project file. Return None for a coder's setting."""
    return None if path[0] == "coders" else functools.reduce(getattr, path, settings)


def _without(layer: SettingsLayer, paths: set[Path]) -> SettingsLayer:
    return layer._replace(values={path: value for path, value in layer.values.items() if path not in paths})


def _skips(layer: SettingsLayer) -> list[Path]:
    """Return the permission settings whose value is "skip"."""
    return [path for path, value in layer.values.items() if path[-1] == "permissions" and value == "skip"]


def _find_raised_permissions(layer: SettingsLayer, held: Settings) -> list[Path]:
    """Return the settings of a project file that would raise permissions.

    They let a coder run tools without asking, although the user's own settings do not.
    """
    flags = [(path, _coder_of_flags(path)) for path, value in layer.values.items() if raises_permissions(path, value)]
    skips = [(path, path[1] if len(path) > 1 else held.coder) for path in _skips(layer)]
    return [path for path, coder in (*skips, *flags) if permissions_for(held, coder) != "skip"]


def _coder_of_flags(path: Path) -> str:
    return path[1] if path[0] == "coders" else CLAUDE


def _warn(path: str, untrusted: list[Path], raised: list[Path]) -> None:
    told = []
    if untrusted:
        told.append(
            f"is not trusted, so these settings have no effect: {_names(untrusted)}; run `fleet trust --show` there"
        )
    if raised:
        told.append(
            f"cannot raise permissions, so these settings have no effect: {_names(raised)}; "
            "run `fleet init` to see who can"
        )
    if told:
        WARNINGS[path] = f"{path} {'. It '.join(told)}"


def _names(paths: list[Path]) -> str:
    return ", ".join(dict.fromkeys(map(format_path, paths)))


def merge(layers: list[SettingsLayer]) -> Settings:
    """Merge layers key by key. Later layers win."""
    values: dict[Path, Any] = {}
    origins: dict[Path, Origin] = {}
    coder, model = DeclaredSettings().coder, DeclaredSettings().model
    owner = coder
    for layer in layers:
        values |= layer.values
        origins |= dict.fromkeys(layer.values, layer.origin)
        coder = layer.values.get(("coder",), coder)
        if ("model",) in layer.values:
            # The default file contains claude's model. That model stays claude's if only the coder is changed.
            owner = coder if layer.values["model",] != model else DeclaredSettings().coder
    for path, origin in origins.items():
        _debug("%s = %s from %s", format_path(path), "…" if path[-1] in _PRIVATE else repr(values[path]), origin)
    merged = msgspec.convert(_nest_values(values), DeclaredSettings)
    return Settings(**msgspec.structs.asdict(merged), origins=origins, model_owner=owner)


def model_for(settings: Settings, coder: str) -> str | None:
    """Return the model to pass to a coder. Return None to leave the choice to the coder."""
    own = settings.coders[coder].model if coder in settings.coders else None
    if coder != settings.coder or coder != settings.model_owner:
        return own
    return own if own and settings.origin("model") == DEFAULT else settings.model


def permissions_for(settings: Settings, coder: str) -> Permissions:
    """Return whether a coder may run tools without asking. "skip" requires the user's recorded consent."""
    said = settings.permissions
    if coder in settings.coders and (own := settings.coders[coder].permissions):
        own_origin = settings.origins["coders", coder, "permissions"]
        said = own if own_origin.rank >= settings.origin("permissions").rank else said
    return "skip" if said == "skip" and settings.consent.skip_permissions_at else "user"


def read_table(path: str) -> dict[str, Any]:
    """Return a TOML file's table. Raises BadInput with line and column."""
    return parse(_read_file(path), path)


def _read_file(path: str) -> bytes:
    try:
        return read_small(path)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error


def parse(data: bytes, path: str) -> dict[str, Any]:
    """Return the table in TOML bytes read from `path`. Raises BadInput with line and column."""
    hint = "run `fleet config edit` to correct the file"
    try:
        text = data.decode()
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        line, column = _find_position(data[: error.start].decode())
        raise BadInput(f"{path}:{line}:{column}: not UTF-8 text", hint=hint) from error
    except tomllib.TOMLDecodeError as error:
        what = re.sub(r" \(at .*\)\Z", "", str(error).splitlines()[0])
        place = re.search(r"\(at line (\d+), column (\d+)\)\Z", str(error))
        line, column = (int(place[1]), int(place[2])) if place else _find_position(text)
        raise BadInput(f"{path}:{line}:{column}: {what[:1].lower()}{what[1:]}", hint=hint) from error
    except RecursionError as error:
        raise BadInput(f"{path}: nested too deeply", hint=hint) from error


def refuse(problems: list[Problem], where: str) -> None:
    """Raise BadInput for the first problem. Do nothing if the list is empty."""
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        hint = (
            problems[0].hint
            or "run `fleet config validate` to list the problems and `fleet config edit` to correct them"
        )
        raise BadInput(f"{where}: {problems[0].message}{more}", hint=hint)


def _of_home(home: Home, *, lenient: bool) -> SettingsLayer:
    """Return the values of runtime.toml, and keep a copy of a valid file in case it becomes invalid."""
    WARNINGS.pop(home.settings, None)
    try:
        layer = _layer("runtime", home.settings, HOME)
    except BadInput as error:
        if not lenient:
            raise
        try:
            layer, held = _layer("runtime", home.good_settings, HOME), "using the last valid settings"
        except BadInput:
            layer, held = SettingsLayer(DEFAULT, {}), "using the defaults"
        WARNINGS[home.settings] = f"{error}; {held}"
        return layer
    if layer.ignored:
        WARNINGS[home.settings] = f"{home.settings}: ignored keys that fleet does not use: {', '.join(layer.ignored)}"
    _keep_good(home)
    return layer


def _keep_good(home: Home) -> None:
    """Copy valid settings unless the copy is up to date. Write errors are ignored."""
    if home.has_good_copy:
        return
    with contextlib.suppress(OSError, FleetError):
        found = os.stat(home.settings)  # noqa: PTH116
        atomic_write(home.good_settings, read_small(home.settings))
        os.utime(home.good_settings, ns=(found.st_atime_ns, found.st_mtime_ns))


def _layer(kind: str, path: str, scope: Scope) -> SettingsLayer:
    data = _read_file(path)
    checked = _check_bytes(data, path, scope)
    refuse([problem for problem in checked.problems if not problem.key], path)
    _debug("read %s", path)
    known_by = sha256(data) if scope == PROJECT else ""
    return SettingsLayer(Origin(kind, path), dict(checked.values), tuple(checked.ignored), known_by)


@functools.lru_cache(maxsize=64)  # a supervisor reads the same files for each run, at its start and at its end
def _check_bytes(data: bytes, path: str, scope: Scope) -> CheckedSettings:
    """Return the settings in the bytes of a file. Raises BadInput."""
    return check(parse(data, path), scope)


def _environment(env: Mapping[str, str]) -> list[SettingsLayer]:
    layers = []
    for name, path in VARIABLES.items():
        if text := env.get(name):
            key = KEYS[path]
            value = convert_text(text.strip(), key) if key.kind in (int, float) else text
            try:
                check_value(key, value)
            except BadInput as error:
                raise BadInput(f"{name}: {error}", hint=f"set {name} to a valid value, or unset it") from error
            layers.append(SettingsLayer(Origin("environment", name), {path: value}))
    return layers


def _nest_values(values: Mapping[Path, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in values.items():
        branch = tree
        for part in path[:-1]:
            branch = branch.setdefault(part, {})
        branch[path[-1]] = value
    return tree


def _debug(message: str, *args: object) -> None:
    """Log a debug message if logging is already imported. Commands without a log avoid the import."""
    if (logging := sys.modules.get("logging")) is not None:
        logging.getLogger(__name__).debug(message, *args)


def _find_position(text: str) -> tuple[int, int]:
    before = text.split("\n")
    return len(before), len(before[-1]) + 1


def coder_settings(settings: Settings, coder: str) -> CoderSettings:
    return settings.coders.get(coder) or CoderSettings()


def flags_for(settings: Settings, coder: str) -> tuple[str, ...]:
    """Return the user's options for a coder's program."""
    old = shlex.split(settings.agent.claude_flags or "") if coder == CLAUDE else []
    return (*coder_settings(settings, coder).flags, *old)


def env_for(settings: Settings, coder: str) -> dict[str, str]:
    """Return the variables for agents of a coder: those of every agent, overridden by the coder's."""
    return {**settings.agent.env, **coder_settings(settings, coder).env}


def program_for(settings: Settings, coder: str) -> str:
    """Return the program to start instead of the coder's own. Empty to use the coder's own."""
    # Path.expanduser raises an error if the user has no home directory.
    return os.path.expanduser(coder_settings(settings, coder).program or "")  # noqa: PTH111


def window_for(settings: Settings, coder: str) -> int | None:
    """Return the user's context size for a coder in tokens, or None. It has priority over the coder's own figure."""
    return coder_settings(settings, coder).context_limit


def accounts_for(settings: Settings, coder: str) -> tuple[AccountSettings, ...]:
    """Return the accounts of a coder in the order in which they are used."""
    return accounts_of(settings.accounts, coder)


def config_folder(account: AccountSettings) -> str:
    """Return the folder of an account's login. Empty for the coder's usual folder."""
    return os.path.expanduser(account.config_dir or "")  # noqa: PTH111


def list_described_coders(settings: Settings) -> tuple[str, ...]:
    return tuple(name for name, own in settings.coders.items() if own.argv)
