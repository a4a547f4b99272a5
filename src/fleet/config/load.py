"""The settings that hold: files and environment laid over the defaults, each value with its origin."""

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

from fleet.config.assign import typed
from fleet.config.check import Problem, check, check_value, dotted
from fleet.config.keys import HOME, KEYS, PROJECT, Declared, Path, Permissions, Scope
from fleet.config.sections import AccountSettings, CoderSettings
from fleet.config.trusted import Demand, demands, digest, is_known_file, raises_permissions, trusted_digests, unsafe
from fleet.core.accounts import accounts_of
from fleet.core.digest import sha256
from fleet.core.errors import WARNINGS, BadInput, FleetError
from fleet.files import atomic_write, read_small
from fleet.home import Home, find_project, project_files

VARIABLES: dict[str, Path] = {
    "FLEET_CODER": ("coder",),
    "FLEET_MODEL": ("model",),
    "FLEET_PERMISSIONS": ("permissions",),
    "FLEET_PORT_BASE": ("ports", "base"),
    "FLEET_QUEUE": ("queue",),
    # The names of codefleet, so that its users keep their environment.
    "FLEET_RATE_LIMIT_MAX_RETRIES": ("limits", "rate_limit_retries"),
    "FLEET_RATE_LIMIT_BASE_DELAY": ("limits", "rate_limit_base_seconds"),
    "FLEET_RATE_LIMIT_MAX_DELAY": ("limits", "rate_limit_max_seconds"),
}
#: Those that tell a supervisor how to work; the others are for the tasks that a caller makes.
OF_SUPERVISORS = tuple(name for name, path in VARIABLES.items() if path[0] in ("limits", "ports"))
#: What may hold secrets, and is not told to a log.
_PRIVATE = ("env", "accounts", "queue")
CLAUDE = "claude"
RANKS = ("default", "runtime", "project", "environment")


class Origin(NamedTuple):
    """Who said a value: one of RANKS, and the file or variable it stands in."""

    kind: str
    where: str

    def __str__(self) -> str:
        return self.where or self.kind

    @property
    def rank(self) -> int:
        return RANKS.index(self.kind)


DEFAULT = Origin("default", "")


class Settings(Declared, frozen=True, kw_only=True):
    """All settings as they hold here and now."""

    origins: dict[Path, Origin]
    """Who said what; a path that is missing has its default."""
    model_owner: str
    """The coder that `model` was said for: a model is never handed to another."""
    project_file: str = ""
    """The file of the project that counts here; empty where there is none."""
    project_digest: str = ""
    """What the bytes of that file are known by."""
    demands: tuple[str, ...] = ()
    """What the project file would do that counts only once the user trusted it, each named by its key."""
    untrusted: tuple[str, ...] = ()
    """Those of them that the user has not trusted. Their settings are left out."""

    def origin(self, key: str) -> Origin:
        """Who said the value of a key written with dots."""
        return next((origin for path, origin in self.origins.items() if dotted(path) == key), DEFAULT)


class Layer(NamedTuple):
    """The values of one file, or of the environment."""

    origin: Origin
    values: dict[Path, Any]
    ignored: tuple[str, ...] = ()
    digest: str = ""  # of the bytes of a project's file


def load(
    home: Home, directory: str | None = None, env: Mapping[str, str] | None = None, *, lenient: bool = False
) -> Settings:
    """What holds in this home, for work in this directory, and in this environment. Raises BadInput with the remedy.

    Where `lenient`, a file that is wrong is warned about: for the home's the last one that was good holds.
    """
    layers = [_of_home(home, lenient=lenient)] if os.path.lexists(home.settings) else []
    project = find_project(directory, home) if directory else None
    said = _environment(os.environ if env is None else env)
    wanted: list[Demand] = []
    file = content = ""
    untrusted: list[Demand] = []
    for path in project_files(project, home)[:1] if project else []:
        WARNINGS.pop(path, None)
        if why := unsafe(project or "", path):
            WARNINGS[path] = f"{path} is ignored: {why}; make it your own to use it"
            continue
        try:
            layer = _layer("project", path, PROJECT)
        except BadInput as error:
            if not lenient:
                raise
            WARNINGS[path] = f"{error}; the file is passed over"
            continue
        before = merge([*layers, *said])
        file, wanted = path, demands(layer.values, functools.partial(usual, before))
        known = trusted_digests(home, project) if wanted and project else frozenset()
        untrusted = [each for each in wanted if digest(each.line) not in known]
        untrusted = [] if untrusted and is_known_file(home, layer.digest) else untrusted
        content = layer.digest
        raised = [each for each in _raised(layer, before) if each not in {one.path for one in untrusted}]
        layers.append(_without(layer, {*raised, *_skips(layer), *(each.path for each in untrusted)}))
        _warn(path, [each.path for each in untrusted], raised)
    layers += said
    held = merge(layers)
    lines = tuple(each.line for each in wanted), tuple(each.line for each in untrusted)
    return msgspec.structs.replace(
        held, project_file=file, project_digest=content, demands=lines[0], untrusted=lines[1]
    )


def usual(settings: Settings, path: Path) -> Any:
    """Return what holds for a setting; None for one of a coder."""
    return None if path[0] == "coders" else functools.reduce(getattr, path, settings)


def _without(layer: Layer, paths: set[Path]) -> Layer:
    return layer._replace(values={path: value for path, value in layer.values.items() if path not in paths})


def _skips(layer: Layer) -> list[Path]:
    """The permissions that a project file could only raise, or leave as they are."""
    return [path for path, value in layer.values.items() if path[-1] == "permissions" and value == "skip"]


def _raised(layer: Layer, held: Settings) -> list[Path]:
    """The settings of a project file that would let a coder run tools unasked where the user's own settings do not."""
    flags = [(path, _coder_of_flags(path)) for path, value in layer.values.items() if raises_permissions(path, value)]
    skips = [(path, path[1] if len(path) > 1 else held.coder) for path in _skips(layer)]
    return [path for path, coder in (*skips, *flags) if permissions_for(held, coder) != "skip"]


def _coder_of_flags(path: Path) -> str:
    return path[1] if path[0] == "coders" else CLAUDE


def _warn(path: str, untrusted: list[Path], raised: list[Path]) -> None:
    told = []
    if untrusted:
        told.append(f"is not trusted, so these have no effect: {_names(untrusted)}; run `fleet trust --show` there")
    if raised:
        told.append(f"cannot raise permissions, so these have no effect: {_names(raised)}; `fleet init` says who may")
    if told:
        WARNINGS[path] = f"{path} {'. It '.join(told)}"


def _names(paths: list[Path]) -> str:
    return ", ".join(dict.fromkeys(map(dotted, paths)))


def merge(layers: list[Layer]) -> Settings:
    """Later layers win, key by key."""
    values: dict[Path, Any] = {}
    origins: dict[Path, Origin] = {}
    coder, model = Declared().coder, Declared().model
    owner = coder
    for layer in layers:
        values |= layer.values
        origins |= dict.fromkeys(layer.values, layer.origin)
        coder = layer.values.get(("coder",), coder)
        if ("model",) in layer.values:
            # The default file spells out claude's model; it stays claude's when only the coder is changed.
            owner = coder if layer.values["model",] != model else Declared().coder
    for path, origin in origins.items():
        _debug("%s = %s from %s", dotted(path), "…" if path[-1] in _PRIVATE else repr(values[path]), origin)
    merged = msgspec.convert(_nested(values), Declared)
    return Settings(**msgspec.structs.asdict(merged), origins=origins, model_owner=owner)


def model_for(settings: Settings, coder: str) -> str | None:
    """The model a coder is told to use; None leaves it to the coder's own default."""
    own = settings.coders[coder].model if coder in settings.coders else None
    if coder != settings.coder or coder != settings.model_owner:
        return own
    return own if own and settings.origin("model") == DEFAULT else settings.model


def permissions_for(settings: Settings, coder: str) -> Permissions:
    """Whether a coder may run tools unasked. "skip" holds only with the user's recorded consent."""
    said = settings.permissions
    if coder in settings.coders and (own := settings.coders[coder].permissions):
        own_origin = settings.origins["coders", coder, "permissions"]
        said = own if own_origin.rank >= settings.origin("permissions").rank else said
    return "skip" if said == "skip" and settings.consent.skip_permissions_at else "user"


def read_table(path: str) -> dict[str, Any]:
    """A TOML file's table. Raises BadInput with line and column."""
    return parse(_read_file(path), path)


def _read_file(path: str) -> bytes:
    try:
        return read_small(path)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error


def parse(data: bytes, path: str) -> dict[str, Any]:
    """The table in TOML bytes that came from path. Raises BadInput with line and column."""
    hint = "`fleet config edit` opens it."
    try:
        text = data.decode()
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode())
        raise BadInput(f"{path}:{line}:{column}: not UTF-8 text", hint=hint) from error
    except tomllib.TOMLDecodeError as error:
        what = re.sub(r" \(at .*\)\Z", "", str(error).splitlines()[0])
        place = re.search(r"\(at line (\d+), column (\d+)\)\Z", str(error))
        line, column = (int(place[1]), int(place[2])) if place else _place(text)
        raise BadInput(f"{path}:{line}:{column}: {what[:1].lower()}{what[1:]}", hint=hint) from error
    except RecursionError as error:
        raise BadInput(f"{path}: nested too deeply", hint=hint) from error


def refuse(problems: list[Problem], where: str) -> None:
    """Raise BadInput for the first problem, if there is one."""
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        hint = problems[0].hint or "`fleet config validate` lists what is wrong; `fleet config edit` opens the file."
        raise BadInput(f"{where}: {problems[0].message}{more}", hint=hint)


def _of_home(home: Home, *, lenient: bool) -> Layer:
    """The values of runtime.toml, of which a copy is kept in case that it becomes wrong."""
    WARNINGS.pop(home.settings, None)
    try:
        layer = _layer("runtime", home.settings, HOME)
    except BadInput as error:
        if not lenient:
            raise
        try:
            layer, held = _layer("runtime", home.good_settings, HOME), "the last settings that were good hold"
        except BadInput:
            layer, held = Layer(DEFAULT, {}), "the defaults hold"
        WARNINGS[home.settings] = f"{error}; {held}"
        return layer
    if layer.ignored:
        WARNINGS[home.settings] = f"{home.settings}: ignored keys that are not fleet's: {', '.join(layer.ignored)}"
    _keep_good(home)
    return layer


def _keep_good(home: Home) -> None:
    """Copy the settings that are good, unless they are copied already; a home that cannot be written goes without."""
    if home.has_good_copy:
        return
    with contextlib.suppress(OSError, FleetError):
        found = os.stat(home.settings)  # noqa: PTH116
        atomic_write(home.good_settings, read_small(home.settings))
        os.utime(home.good_settings, ns=(found.st_atime_ns, found.st_mtime_ns))


def _layer(kind: str, path: str, scope: Scope) -> Layer:
    data = _read_file(path)
    checked = check(parse(data, path), scope)
    refuse([problem for problem in checked.problems if not problem.key], path)
    _debug("read %s", path)
    known_by = sha256(data) if scope == PROJECT else ""
    return Layer(Origin(kind, path), checked.values, tuple(checked.ignored), known_by)


def _environment(env: Mapping[str, str]) -> list[Layer]:
    layers = []
    for name, path in VARIABLES.items():
        if text := env.get(name):
            key = KEYS[path]
            value = typed(text.strip(), key) if key.kind in (int, float) else text
            try:
                check_value(key, value)
            except BadInput as error:
                raise BadInput(f"{name}: {error}", hint=f"set {name} to something else, or unset it.") from error
            layers.append(Layer(Origin("environment", name), {path: value}))
    return layers


def _nested(values: Mapping[Path, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in values.items():
        branch = tree
        for part in path[:-1]:
            branch = branch.setdefault(part, {})
        branch[path[-1]] = value
    return tree


def _debug(message: str, *args: object) -> None:
    """Log for debugging if the program logs at all: a command that does not is spared the import."""
    if (logging := sys.modules.get("logging")) is not None:
        logging.getLogger(__name__).debug(message, *args)


def _place(text: str) -> tuple[int, int]:
    before = text.split("\n")
    return len(before), len(before[-1]) + 1


def coder_settings(settings: Settings, coder: str) -> CoderSettings:
    return settings.coders.get(coder) or CoderSettings()


def flags_for(settings: Settings, coder: str) -> tuple[str, ...]:
    """The user's own options for a coder's program."""
    old = shlex.split(settings.agent.claude_flags or "") if coder == CLAUDE else []
    return (*coder_settings(settings, coder).flags, *old)


def env_for(settings: Settings, coder: str) -> dict[str, str]:
    """What agents of a coder get from the settings: what every agent gets, and over it the coder's own."""
    return {**settings.agent.env, **coder_settings(settings, coder).env}


def program_for(settings: Settings, coder: str) -> str:
    """The program to start in place of a coder's own; empty where its own is meant."""
    # Not Path.expanduser: it raises where there is no home directory.
    return os.path.expanduser(coder_settings(settings, coder).program or "")  # noqa: PTH111


def window_for(settings: Settings, coder: str) -> int | None:
    """How many tokens fit into the context, where the user says so; it counts before what the coder tells."""
    return coder_settings(settings, coder).context_limit


def accounts_for(settings: Settings, coder: str) -> tuple[AccountSettings, ...]:
    """Return the accounts of a coder in the order in which they are used."""
    return accounts_of(settings.accounts, coder)


def config_folder(account: AccountSettings) -> str:
    """Where the login of an account lies; empty where it is the coder's usual place."""
    return os.path.expanduser(account.config_dir or "")  # noqa: PTH111


def described_coders(settings: Settings) -> tuple[str, ...]:
    return tuple(name for name, own in settings.coders.items() if own.argv)
