"""Effects of well-known programs on files, by their arguments: what they delete, write or create. Nothing is run."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from fleet.proof.scope.bounds import DELETES, MAKES, WORKS, WRITES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


#: Programs that run scripts in other languages.
INTERPRETERS = ("python", "node", "ruby", "perl", "deno", "bun", "php")
#: Maximum number of command lines of a script to examine.
MOST_STARTED = 50


class Effect(NamedTuple):
    """An action on a path, which is as the command names it."""

    verb: str
    path: str
    whole: bool = False  # True if everything below the path is included


class ProgramArguments(NamedTuple):
    """The arguments of a program: its options with their values, and its operands."""

    options: list[tuple[str, str]]
    operands: list[str]

    def value(self, *names: str) -> str | None:
        """Return the last value of an option under any of its names. Return None if the option is not set."""
        return next((value for name, value in reversed(self.options) if name in names), None)

    def has(self, *names: str) -> bool:
        """Return True if one of these options is set. Short options may be combined."""
        letters = {name[1] for name in names if len(name) == 2}
        return any(name in names or (name[:2] != "--" and letters.intersection(name[1:])) for name, _ in self.options)


def arguments(words: Iterable[str], valued: Collection[str] = ()) -> ProgramArguments:
    """Return the arguments sorted into options and operands.

    An option in `valued` takes the next word as its value, or the rest of its own word.
    """
    found = ProgramArguments([], [])
    rest = iter(words)
    for word in rest:
        if word == "--":
            found.operands.extend(rest)
        elif not word.startswith("-") or word == "-":
            found.operands.append(word)
        elif word.startswith("--"):
            name, _, value = word.partition("=")
            found.options.append((name, next(rest, "") if name in valued and "=" not in word else value))
        elif word[:2] in valued:
            found.options.append((word[:2], word[2:] or next(rest, "")))
        elif word[0:1] + word[-1] in valued and len(word) > 2:  # `-xzf FILE`, `-sLo FILE`
            found.options.extend([(word[:-1], ""), ("-" + word[-1], next(rest, ""))])
        else:
            found.options.append((word, ""))
    return found


def effects(program: str, words: list[str]) -> list[Effect]:
    """Return the effects of a program with these arguments, as far as known."""
    known = _PROGRAMS.get(program)
    return known(words) if known else []


def _rm(words: list[str]) -> list[Effect]:
    told = arguments(words)
    return [Effect(DELETES, path, told.has("-r", "-R", "--recursive")) for path in told.operands]


def _remove_one(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-n", "-s", "--iterations", "--size"))
    return [Effect(DELETES, path) for path in told.operands]


def _touch(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-d", "-t", "-r", "-s", "--date", "--reference", "--size"))
    return [Effect(WRITES, path) for path in told.operands]


def _tee(words: list[str]) -> list[Effect]:
    return [Effect(WRITES, path) for path in arguments(words).operands]


def _mkdir(words: list[str]) -> list[Effect]:
    return [Effect(MAKES, path) for path in arguments(words, ("-m", "--mode")).operands]


def _chmod(words: list[str]) -> list[Effect]:
    told = arguments(word for word in words if not re.fullmatch(r"-[rwxXst]+", word))
    paths = told.operands if told.value("--reference") is not None or len(told.operands) < 2 else told.operands[1:]
    return [Effect(WRITES, path) for path in paths]


def _parse_copy(words: list[str]) -> tuple[ProgramArguments, list[str], str]:
    """Return the arguments of a copying program, its sources and its target."""
    told = arguments(words, ("-t", "--target-directory", "-S", "--suffix", "-m", "-o", "-g", "--mode", "--owner"))
    target = told.value("-t", "--target-directory")
    if target is not None:
        return told, told.operands, target
    return told, told.operands[:-1], told.operands[-1] if len(told.operands) > 1 else ""


def _cp(words: list[str]) -> list[Effect]:
    _, _, target = _parse_copy(words)
    return [Effect(WRITES, target)] if target else []


def _mv(words: list[str]) -> list[Effect]:
    _, sources, target = _parse_copy(words)
    gone = [Effect(DELETES, path, whole=True) for path in sources]
    return [*gone, Effect(WRITES, target)] if target else []


def _install(words: list[str]) -> list[Effect]:
    told, _, target = _parse_copy(words)
    if told.has("-d", "--directory"):
        return [Effect(MAKES, path) for path in told.operands]
    return [Effect(WRITES, target)] if target else []


def _sed(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-e", "-f", "--expression", "--file", "-l", "--line-length"))
    if not any(
        name.startswith(("-i", "--in-place")) or re.fullmatch(r"-[nErsz]+i.*", name) for name, _ in told.options
    ):
        return []
    script = told.value("-e", "-f", "--expression", "--file") is None
    return [Effect(WRITES, path) for path in told.operands[script:]]


def _perl(words: list[str]) -> list[Effect]:
    in_place = any(re.match(r"-[a-zA-Z0]*i", word) for word in words)
    told = arguments(words, ("-e", "-E", "-I", "-M"))
    return [Effect(WRITES, path) for path in told.operands] if in_place else []


def _dd(words: list[str]) -> list[Effect]:
    return [Effect(WRITES, word[3:]) for word in words if word.startswith("of=")]


def _rsync(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-e", "-f", "--exclude", "--include", "--filter", "--rsh", "--files-from"))
    if len(told.operands) < 2 or ":" in told.operands[-1].split("/")[0]:
        return []
    deletes = any(name.startswith("--delete") for name, _ in told.options)
    gone = told.operands[:-1] if told.has("--remove-source-files") else []
    verb = DELETES if deletes else WRITES
    return [Effect(verb, told.operands[-1], deletes), *(Effect(DELETES, path, whole=True) for path in gone)]


def _tar(words: list[str]) -> list[Effect]:
    if words and not words[0].startswith("-"):
        words = ["-" + words[0], *words[1:]]
    told = arguments(words, ("-f", "-C", "-T", "-X", "--file", "--directory", "--exclude"))
    place = told.value("-C", "--directory")
    if told.has("-x", "--extract", "--get"):
        return [Effect(WRITES, place or ".")]
    made = told.value("-f", "--file") if told.has("-c", "-r", "-u", "--create", "--append", "--update") else None
    gone = [Effect(DELETES, path, whole=True) for path in told.operands] if told.has("--remove-files") else []
    return ([Effect(WRITES, made)] if made and made != "-" else []) + gone


def _unzip(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-d", "-x", "-P"))
    listing = told.has("-l", "-t", "-p", "-Z", "-v")
    return [] if listing else [Effect(WRITES, told.value("-d") or ".")]


def _zip(words: list[str]) -> list[Effect]:
    return [Effect(WRITES, path) for path in arguments(words, ("-x", "-i")).operands[:1] if path != "-"]


def _curl(words: list[str]) -> list[Effect]:
    told = arguments(
        words, ("-o", "--output", "--output-dir", "-H", "-d", "-X", "-u", "-A", "-T", "-F", "-b", "-c", "-D")
    )
    folder = told.value("--output-dir")
    named = [value for name, value in told.options if name in ("-o", "--output", "-c", "-D") and value != "-"]
    return [Effect(WRITES, f"{folder}/{each}" if folder else each) for each in named]


def _wget(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-O", "-P", "-o", "--output-document", "--directory-prefix", "-U", "--header"))
    named = ("-O", "-P", "-o", "--output-document", "--directory-prefix")
    return [Effect(WRITES, value) for name, value in told.options if name in named and value != "-"]


def _ln(words: list[str]) -> list[Effect]:
    told, _, target = _parse_copy(words)
    if target:
        return [Effect(WRITES, target)]
    return [Effect(WRITES, told.operands[0].rstrip("/").rpartition("/")[2])] if len(told.operands) == 1 else []


def _patch(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-d", "--directory", "-p", "-i", "--input", "-o", "--output"))
    return [Effect(WRITES, value) for name, value in told.options if name in ("-d", "--directory", "-o", "--output")]


def _builder(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-C", "--prefix", "--cwd", "--dir", "--directory", "--project", "-f", "-j"))
    return [Effect(WORKS, told.value("-C", "--prefix", "--cwd", "--dir", "--directory", "--project") or ".")]


def _sqlite(words: list[str]) -> list[Effect]:
    told = arguments(words, ("-cmd", "-separator", "-init"))
    changes = re.search(
        r"\b(insert|update|delete|drop|create|alter|replace|vacuum)\b", " ".join(told.operands[1:]), re.I
    )
    return [Effect(WRITES, told.operands[0])] if changes else []


def code_in(program: str, words: list[str]) -> str:
    """Return the script among an interpreter's arguments."""
    if not program.startswith(INTERPRETERS):
        return ""
    at = next((n for n, word in enumerate(words) if word in ("-c", "-e", "-E", "--eval", "-p", "-pe")), None)
    return words[at + 1] if at is not None and at + 1 < len(words) else ""


_QUOTED_PATH = r"""\s{0,8}(?:pathlib\.)?(?:Path\(\s{0,8})?[rbf]{0,2}["']([^"'\n]{1,500})["']"""
_DELETING = re.compile(
    r"(?:shutil\.rmtree|os\.remove|os\.unlink|os\.rmdir|os\.removedirs|rmSync|unlinkSync|rmdirSync|rimraf"
    r"|FileUtils\.rm_rf|FileUtils\.rm_r|File\.delete|unlink)\s{0,8}[( ]" + _QUOTED_PATH
)
_OPENING = re.compile(
    r"\bopen\s{0,8}\(" + _QUOTED_PATH + r"""\s{0,8},\s{0,8}(?:mode\s{0,8}=\s{0,8})?["'][rbt]{0,2}[wax+]"""
)
_WRITING = re.compile(r"(?:writeFileSync|appendFileSync|File\.write|os\.truncate)\s{0,8}\(" + _QUOTED_PATH)
_METHOD = re.compile(
    r"""Path\(\s{0,8}[rb]?["']([^"'\n]{1,500})["']\s{0,8}\)\.(write_text|write_bytes|unlink|rmdir|touch)\("""
)


_STARTED = re.compile(
    r"(?:os\.system|os\.popen|subprocess\.\w{2,12}|execSync|spawnSync|\bsystem|\bexec)\s{0,8}\(\s{0,8}"
    r"""(?:(["'])((?:(?!\1)[^\n]){1,500})\1|\[([^\]\n]{1,500})\])"""
)
_ITEM = re.compile(r"""["']([^"'\n]*)["']""")


def started(code: str) -> list[str]:
    """Return the command lines that a script in another language starts with literal strings."""
    found = []
    for match in _STARTED.finditer(code):
        found.append(match[2] if match[2] else shlex.join(_ITEM.findall(match[3])))
    return found[:MOST_STARTED]


def script(code: str) -> list[Effect]:
    """Return the clear effects of a script in another language: a literal path that is deleted or written."""
    found = [Effect(DELETES, match[1], whole=True) for match in _DELETING.finditer(code)]
    found += [Effect(WRITES, match[1]) for match in (*_OPENING.finditer(code), *_WRITING.finditer(code))]
    methods = {"unlink": DELETES, "rmdir": DELETES}
    found += [Effect(methods.get(match[2], WRITES), match[1]) for match in _METHOD.finditer(code)]
    return [each for each in found if each.path.startswith(("/", "..", "~"))]


_PROGRAMS: dict[str, Callable[[list[str]], list[Effect]]] = {
    "rm": _rm,
    **dict.fromkeys(("rmdir", "unlink", "shred", "srm", "trash"), _remove_one),
    **dict.fromkeys(("touch", "truncate"), _touch),
    **dict.fromkeys(("tee", "sponge"), _tee),
    "mkdir": _mkdir,
    **dict.fromkeys(("chmod", "chown", "chgrp", "chattr"), _chmod),
    "cp": _cp,
    "mv": _mv,
    "install": _install,
    **dict.fromkeys(("sed", "gsed"), _sed),
    "perl": _perl,
    "dd": _dd,
    "rsync": _rsync,
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    "unzip": _unzip,
    "zip": _zip,
    "curl": _curl,
    "wget": _wget,
    "ln": _ln,
    "patch": _patch,
    **dict.fromkeys(("make", "gmake", "ninja", "npm", "pnpm", "yarn", "bun"), _builder),
    "sqlite3": _sqlite,
}
