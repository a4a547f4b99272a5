"""Rules for the layers, for readable code and for a light `bd`, checked by reading every module of fleet."""

import ast
import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from fleet.home import Home as FleetHome
from repositories import make_repository
from supervised import wait_for

SRC = Path(__file__).parent.parent / "src"

# From the bottom up: a module imports from its own layer and from those below.
LAYERS = (
    ("core",),
    ("settings", "home", "files", "descent", "wake"),
    ("store", "coders", "agents", "git"),
    ("beads", "supervisor", "proof", "workflows", "hosts"),
    ("assembly",),
    ("actions",),
    ("cli", "tui", "web", "mcp", "metrics"),
    ("__main__",),
)
RANK = {part: rank for rank, layer in enumerate(LAYERS) for part in layer}
ADAPTERS = LAYERS[2]
FACES = LAYERS[6]

# Modules of a port that other folders may import: its promises, its registry, and code that all its products share.
OPEN_MODULES = ("base", "prompt", "dialogs", "screen_dialog", "refusals", "lock", "transfer", "sql_connection")
#: A folder without a port: git is the only product, and a port would only add names.
OPEN_PARTS = ("git",)

# Files whose functions may import, with the reason. Everywhere else, imports stand at the top.
LOCAL_IMPORTS = {
    "fleet/__main__.py": "`fleet bd` and a supervisor in the background must not pay for click",
    "fleet/agents/shim_link.py": "asyncio, which commands that ask shims once do not need",
    "fleet/assembly.py": "a product is imported when it is opened",
    "fleet/*/__init__.py": "registries import a product when it is asked for",
    "fleet/core/errors.py": "difflib, to help with a typing error",
    "fleet/core/ids.py": "hashlib opens OpenSSL, a fifth of a `bd` call",
    "fleet/core/jsontext.py": "the json module is a third of a `bd` call",
    "fleet/store/sqlite/store.py": "a regex engine, for text searches alone; others for doctors and supervisors alone",
    "fleet/store/base.py": "`fleet bd ready` imports no claims and no runs",
    "fleet/cli/main.py": "`fleet --help` imports no command",
    "fleet/cli/lazy_click.py": "click, for a command line that only click parses",
    "fleet/cli/confirmation.py": "click, for a question at a terminal",
    "fleet/cli/completion.py": "git and settings, for the words that need them",
    "fleet/cli/options.py": "only a shell asks for completions",
    "fleet/cli/errors.py": "on the path of every `bd` call; needed when something went wrong",
    "fleet/actions/tasks/bounds.py": "on the path of agents' `bd` calls; repositories and budgets are seldom bounded",
    "fleet/hosts/alone.py": "only a queue that was moved here has tasks of other hosts",
    "fleet/actions/worktrees/removal.py": "asyncio, for teardown commands alone",
    "fleet/git/branches.py": "difflib, to help with a typing error",
    "fleet/actions/tasks/names.py": "subprocess costs as much as reading the list",
    "fleet/settings/text.py": "tomlkit, for writing files alone",
    "fleet/cli/list_agents.py": "`fleet list` is typed all day, and seldom repairs",
    "fleet/cli/create.py": "the supervisor starts beside these imports",
    "fleet/cli/tables.py": "text is folded and a screen is measured on a terminal only",
    "fleet/settings/queue.py": "URLs and programs, for queues that are named by them",
    "fleet/settings/prices.py": "the table of prices, for whoever asks for one",
    "fleet/coders/refusals.py": "time zones, for a limit that names one",
    "fleet/actions/control/homes.py": "settings are written once",
    "fleet/actions/tasks/placement.py": "git's remotes, for queues that hosts share",
    "fleet/git/repository.py": "git is asked only if a repository is another user's, or cannot be read",
    "fleet/supervisor/run/start.py": "verify commands, for tasks that have one",
    "fleet/git/untrusted_folders.py": "logging, for what could not be deleted",
    "fleet/git/view.py": "a command that logs nothing imports no logging",
    "fleet/supervisor/run/live.py": "shell lines are read once an agent uses a tool",
    "fleet/supervisor/run/runner.py": "the end of a run, which the supervisor loads after the first start",
    "fleet/cli/bd/*": "agents call it hundreds of times: each verb imports what it needs",
}

# Each costs about as much as starting Python does (docs/decisions/001).
HEAVY = (
    *("click", "msgspec", "tomlkit", "dataclasses", "typing", "inspect", "pathlib"),
    *("tomllib", "subprocess", "asyncio", "logging", "fleet.settings.price_table"),
)

# Frequent commands load nothing that only a supervisor needs, and draw their tables themselves.
SUPERVISORS = (
    *("asyncio", "ssl", "fleet.supervisor.run.start", "fleet.supervisor.run.runner", "fleet.proof.verify.commit"),
    *("fleet.supervisor.coder_files", "fleet.proof"),
)

# Commands that only show the queue read settings and the database, and little else.
OF_VIEWS = ("logging", "pathlib", "shutil", "subprocess", "urllib.parse", "fleet.git.process")

# Before its first agent, a supervisor loads nothing that only the end of a run, or only some runs, need.
OF_LATER = (
    *("click", "zoneinfo", "configparser", "fleet.settings.price_table", "fleet.supervisor.run.end"),
    *("fleet.supervisor.run.end", "fleet.proof.verify.commit", "fleet.proof.scope.lookout"),
)

# Words that hide the actor, and metaphors, with the plain words for them; then talk about our own process.
PHRASES = {
    r"(is|are) there already": "already exists",
    r"(is|are) the (most|least)\b(?! \w)": "the maximum is, the minimum is",
    r"unless said": "default: X",
    r"\b(nobody|somebody|whoever)\b": "no user, a person, the owner …",
    r"\b(lies|stands) (at|in)\b": "is in",
    r"\b(go|goes|gone|going|went) on with\b": "continues with",
    r"\b(anew|afresh)\b": "again, from scratch",
    r"\bof (its|their|your|his) own\b(?! [a-z])": "its own, separate",
    r"\b(done|closed|written) by hand\b": "manually",
    r"\bby (itself|themselves)\b": "automatically",
    r"\b(is|are) over\b": "has finished",
    r"\b(is|are) away\b": "is unreachable",
    r"\bmend(s|ed|ing)?\b": "repair",
    r"\ball the same\b|\bin the midst\b|\bcame of (it|them)\b": "anyway, in the middle, resulted from",
    r"\b(behaviour|licence|recognise)": "American spelling",
    r"\b(issue|seed|defect)s? [0-9]+|\bbeing built\b": "nothing: readers do not know our process",
}

SQL = re.compile(r"\s*(select|insert|update|delete|create)\s", re.IGNORECASE)


class Module(NamedTuple):
    """One file of the package."""

    path: str  # from src/
    name: str
    text: str
    tree: ast.Module

    @property
    def part(self) -> str:
        """Return the layer's member: `core`, `cli`, `home` …; "" for the package itself."""
        return part_of(self.name)

    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)

    def fleet_imports(self) -> set[str]:
        """Return the modules of fleet that this one imports, including those for type checkers."""
        return imports_of(self.name)


@functools.cache
def imports_of(module: str) -> set[str]:
    found = set()
    for node in modules()[module].nodes():
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules() else node.module for name in inner}
    return {name for name in found if name.split(".")[0] == "fleet"}


def part_of(name: str) -> str:
    return [*name.split("."), ""][1]


@functools.cache
def modules() -> dict[str, Module]:
    """Return every module under src/fleet, by name."""
    found = {}
    for file in sorted(SRC.glob("fleet/**/*.py")):
        path = file.relative_to(SRC).as_posix()
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        text = file.read_text("utf-8")
        found[name] = Module(path, name, text, ast.parse(text, path))
    return found


def check_every_module(find: Callable[[Module], object], rule: str) -> None:
    """Fail with all findings of a search, by the path of their module."""
    found = [f"{module.path}: {wrong}" for module in modules().values() if (wrong := find(module))]
    assert not found, "\n".join([rule, *found])


def test_every_part_has_its_layer() -> None:
    assert {module.part for module in modules().values()} <= {*RANK, ""}


def test_imports_point_down() -> None:
    def above(module: Module) -> list[str]:
        rank = RANK.get(module.part, -1)  # the package itself imports nothing of its own
        return sorted(name for name in module.fleet_imports() if RANK.get(part_of(name), 0) > rank)

    check_every_module(above, "imports from a layer above")


def test_adapters_and_faces_do_not_import_each_other() -> None:
    def siblings(module: Module) -> list[str]:
        # The command line starts the other faces.
        layer = next((each for each in (ADAPTERS, FACES) if module.part in each and module.part != "cli"), ())
        return sorted(name for name in module.fleet_imports() if part_of(name) in {*layer} - {module.part})

    check_every_module(siblings, "imports from another part of its layer")


def test_only_the_assembly_imports_products() -> None:
    def products(module: Module) -> list[str]:
        # Beads keeps its copy of the tasks in the embedded store.
        own = {module.part, "store" if module.part == "beads" else ""}
        named = (name for name in module.fleet_imports() if is_product(name) and part_of(name) not in own)
        return [] if module.part == "assembly" else sorted(named)

    check_every_module(products, "ask fleet.assembly for these")


def is_product(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 2 and parts[1] in ADAPTERS and parts[1] not in OPEN_PARTS and parts[2] not in OPEN_MODULES


def test_imports_have_no_cycle() -> None:
    graph = {name: module.fleet_imports() & set(modules()) for name, module in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_imports_are_absolute_and_at_the_top() -> None:
    def lines(module: Module) -> list[int]:
        relative = {node.lineno for node in module.nodes() if isinstance(node, ast.ImportFrom) and node.level}
        if any(fnmatch(module.path, allowed) for allowed in LOCAL_IMPORTS):
            return sorted(relative)
        functions = [node for node in module.nodes() if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = {n.lineno for f in functions for n in ast.walk(f) if isinstance(n, ast.Import | ast.ImportFrom)}
        return sorted(relative | inside)

    check_every_module(lines, "relative imports, or imports inside a function, at these lines")


def test_every_module_has_a_docstring() -> None:
    check_every_module(lambda module: not ast.get_docstring(module.tree), "no docstring")


def test_docstring_of_each_package_lists_its_files() -> None:
    def differs(module: Module) -> list[str]:
        folder = (SRC / module.path).parent
        if not module.path.endswith("/__init__.py"):
            return []
        files = {file.stem for file in folder.glob("*.py")} - {"__init__"}
        files |= {f"{file.parent.name}/" for file in folder.glob("*/__init__.py")}
        listed = (ast.get_docstring(module.tree) or "").rpartition("\n\n")[2]
        lines = [line.partition(" ") for line in listed.split("\n")]
        wide = [name for name, _, words in lines if not 0 < len(words.strip()) <= 70]
        return sorted(files ^ {name for name, _, _ in lines}) + wide

    check_every_module(differs, "not a file of the package, not in its list, or no line of 70 characters for it")


def test_texts_use_plain_words() -> None:
    root = SRC.parent
    globs = ("*.md", "docs/**/*.md", "src/**/*.py", "src/**/*.md", "src/**/*.toml", "tools/*.py", "deploy/**/*.*")
    found = []
    for file in sorted(file for pattern in globs for file in root.glob(pattern)):
        text = file.read_text("utf-8")
        found += [
            f"{file.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}: write {plain}"
            for phrase, plain in PHRASES.items()
            for match in re.finditer(phrase, text, re.IGNORECASE)
        ]
    assert not found, "\n".join(found)


PATHS_OF_A_HOME = {*vars(FleetHome("/home"))}


def test_only_home_joins_its_paths() -> None:
    def joins(module: Module) -> list[int]:
        expressions = [node for node in module.nodes() if isinstance(node, ast.expr) and module.name != "fleet.home"]
        return [node.lineno for node in expressions if joins_to_home(node)]

    check_every_module(joins, "joins names to a path of the home at these lines: give fleet.home.Home a method")


def joins_to_home(node: ast.expr) -> bool:
    """Return True if an expression builds a path inside the home: a join, a sum, or an f-string."""
    if isinstance(node, ast.Call):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return called in ("join", "Path", "File") and len(node.args) > 1 and is_home_path(node.args[0])
    if isinstance(node, ast.BinOp):
        return is_home_path(node.left) and str(getattr(node.right, "value", "")).startswith("/")
    if isinstance(node, ast.JoinedStr):
        pairs = zip(node.values, node.values[1:], strict=False)
        inside = [end for start, end in pairs if isinstance(start, ast.FormattedValue) and is_home_path(start.value)]
        ends = [str(end.value) for end in inside if isinstance(end, ast.Constant)]
        return any(end.startswith("/") and (end != "/" or end is not ends[-1]) for end in ends)
    return False


def is_home_path(node: ast.expr) -> bool:
    """Return True for `home.root`, `self._home.tasks` and similar, also inside `os.path.realpath`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        return is_home_path(node.args[0])
    if not isinstance(node, ast.Attribute) or node.attr not in PATHS_OF_A_HOME:
        return False
    owner = node.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.lstrip("_") == "home"


def test_only_the_command_line_prints() -> None:
    def prints(module: Module) -> list[int]:
        calls = (node for node in module.nodes() if isinstance(node, ast.Call) and module.part != "cli")
        return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]

    check_every_module(prints, "print at these lines")


def test_sql_is_only_in_sql_files() -> None:
    def sql(module: Module) -> list[int]:
        if module.part != "store":
            return []
        documents = {id(node.value) for node in module.nodes() if isinstance(node, ast.Expr)}
        strings = [node for node in module.nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        return [node.lineno for node in strings if id(node) not in documents and SQL.match(str(node.value))]

    check_every_module(sql, "SQL text at these lines: put it in store/sql/")


def test_supervisor_does_not_ask_if_the_queue_is_shared() -> None:
    """It calls the port `Cluster`."""

    def asked(module: Module) -> list[int]:
        names = (
            node
            for node in module.nodes()
            if isinstance(node, ast.Attribute) and module.part in ("supervisor", "proof")
        )
        return [node.lineno for node in names if node.attr == "is_shared"]

    check_every_module(asked, "is_shared at these lines")


def test_worktrees_are_removed_in_one_place() -> None:
    """Only the removal service calls functions that remove a worktree without saving it."""
    removers = {f"fleet.git.worktree.{name}" for name in ("remove", "take_away", "undo")}

    def removes(module: Module) -> list[str]:
        if module.part == "git" or module.name == "fleet.supervisor.removal":
            return []
        imports = [node for node in module.nodes() if isinstance(node, ast.ImportFrom)]
        named = {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
        used = {node.attr for node in module.nodes() if isinstance(node, ast.Attribute) and is_name(node.value)}
        if "fleet.git.worktree" in named:
            named |= {f"fleet.git.worktree.{name}" for name in used}
        return sorted(named & removers)

    def is_name(node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == "worktree"

    check_every_module(removes, "use fleet.supervisor.removal, which saves first")


LOOK = """
import json, sys
before = set(sys.modules)
from fleet.__main__ import main
try:
    main()
finally:
    print(json.dumps([name for name in sys.modules if name not in before]), file=sys.stderr)
"""


class Home:
    """A home in which commands report what they import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "FLEET_HOME": str(folder / "home"), "LANG": "C.UTF-8"}
        self.call("init", "--permissions", "user")

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command that prints the modules it imported when it ends."""
        command = [sys.executable, "-c", LOOK, *words]
        return subprocess.Popen(command, env=self.env, cwd=self.folder, text=True, stderr=subprocess.PIPE)

    def call(self, *words: str) -> tuple[str, set[str]]:
        """Run a command. Return what it printed and the modules it imported."""
        done = subprocess.run(
            [sys.executable, "-c", LOOK, *words],
            capture_output=True,
            env=self.env,
            cwd=self.folder,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, set(json.loads(done.stderr.splitlines()[-1]))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_bd_imports_no_heavy_module(home: Home) -> None:
    """The hot path imports nothing that costs as much as starting Python."""
    home.call("bd", "create", "a task", "--json")
    _, imported = home.call("bd", "ready", "--json")
    assert not imported & {*HEAVY}


def test_commands_import_nothing_of_a_supervisor(home: Home) -> None:
    made, _ = home.call("bd", "create", "a task", "--json")
    task = json.loads(made)["id"]
    commands = (("--help",), ("status",), ("list",), ("tasks",), ("show", task), ("create", "--help"), ("kill", task))
    found = {words: home.call(*words)[1] & {*SUPERVISORS} for words in commands}
    assert not any(found.values()), found


def test_frequent_commands_do_not_import_click(home: Home) -> None:
    made, _ = home.call("bd", "create", "a task", "--json")
    for words in (("list",), ("list", "--json", "--all"), ("kill", json.loads(made)["id"])):
        assert "click" not in home.call(*words)[1], words


def test_supervisor_of_one_machine_imports_nothing_of_other_hosts(home: Home) -> None:
    """The supervisor runs a task in a worktree from start to end."""
    repository = make_repository(home.folder / "repository")
    home.call("config", "set", "coder=demo")
    made, _ = home.call("bd", "create", "a task", "--workspace", "worktree", "--cwd", str(repository), "--json")
    task = json.loads(made)["id"]
    supervisor = home.start("run")
    try:
        wait_for(
            lambda: runs_of(home, task) == ["finished"], "the run to end", lambda: home.call("bd", "show", task)[0]
        )
    finally:
        supervisor.terminate()
        _, told = supervisor.communicate(timeout=60)
    imported = {name for name in json.loads(told.splitlines()[-1]) if name.startswith("fleet.hosts.")}
    assert imported == {"fleet.hosts.alone"}


def runs_of(home: Home, task: str) -> list[str]:
    return [run["ending"] for run in json.loads(home.call("runs", task, "--json")[0])]


def test_supervisor_starts_with_only_what_its_first_agent_needs() -> None:
    look = "import sys; from fleet.cli import foreground; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert not {*done.stdout.split()} & {*OF_LATER}
