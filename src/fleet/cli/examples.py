"""The examples at the end of each command's help. Imported only when help is printed."""

#: Two examples for each command and subcommand.
EXAMPLES: dict[str, tuple[str, str]] = {
    "": ("fleet create fix-login -p 'Fix the login'", "fleet help names"),
    # Start agents
    "create": ("fleet create fix-login -p 'Fix the login'", "fleet create docs --agent codex --prompt-file task.md"),
    "fanout": ("fleet fanout 3 jwt -p 'Add JWT login'", "fleet fanout --agents claude:2,codex:1 -p 'Add JWT login'"),
    "multi": ("fleet multi fix-auth:'Fix the login' docs:'Update the README'", "fleet multi --file prompts.txt"),
    "workflow": ("fleet workflow new review", "fleet workflow run review.toml -p 'Add JWT login' --wait"),
    "workflow new": ("fleet workflow new", "fleet workflow new review --out review.toml"),
    "workflow validate": ("fleet workflow validate review.toml", "fleet workflow validate review.toml --json"),
    "workflow show": ("fleet workflow show review.toml", "fleet workflow show wf_1a2b --json"),
    "workflow run": ("fleet workflow run review.toml -p 'Add JWT login'", "fleet workflow run review.toml --wait"),
    "workflow status": ("fleet workflow status wf_1a2b", "fleet workflow status wf_1a2b --json"),
    "workflow list": ("fleet workflow list", "fleet workflow list --status running"),
    "workflow results": ("fleet workflow results wf_1a2b", "fleet workflow results wf_1a2b --json"),
    "workflow cancel": ("fleet workflow cancel wf_1a2b", "fleet workflow cancel wf_1a2b --json"),
    "workflow cleanup": ("fleet workflow cleanup wf_1a2b", "fleet workflow cleanup wf_1a2b --branches --yes"),
    # Watch
    "status": ("fleet status", "fleet status --json | jq -r '.needs_you[].commands[0]'"),
    "list": ("fleet list", "fleet list --watch --all-projects"),
    "attach": ("fleet attach fix-login", "fleet attach fleet-4k"),
    "logs": ("fleet logs fix-login -n 100", "fleet logs -f fix-login"),
    "diff": ("fleet diff fix-login", "fleet diff fix-login --stat"),
    "questions": ("fleet questions", "fleet questions --all --json"),
    "tasks": ("fleet tasks", "fleet tasks --watch"),
    "show": ("fleet show fix-login", "fleet show fleet-4k --json"),
    "wait": ("fleet wait fix-login docs", "fleet wait --all --timeout 600"),
    "runs": ("fleet runs fix-login", "fleet runs fix-login --compare 1 2"),
    "task": ("fleet task fix-login events -n 20", "fleet task fleet-4k result"),
    # Steer
    "prompt": ("fleet prompt fix-login 'Add a test too'", "fleet prompt fix-login < notes.txt"),
    "interrupt": ("fleet interrupt fix-login", "fleet interrupt fix-login 'Use the new API'"),
    "answer": ("fleet answer fix-login 'Use the second one'", "fleet answer fleet-4k < answer.txt"),
    "retry": ("fleet retry fix-login", "fleet retry 'jwt-*'"),
    "done": ("fleet done fix-login", "fleet done 'jwt-*' --reason 'not needed' --yes"),
    "kill": ("fleet kill fix-login", "fleet kill 'jwt-*' --delete-branch --yes"),
    # Review and merge
    "receipt": ("fleet receipt fix-login", "fleet receipt fix-login --run 1 --check"),
    "verify": ("fleet verify fix-login", "fleet verify 'jwt-*' --verify 'make test'"),
    "pick": ("fleet pick 'jwt-*'", "fleet pick 'jwt-*' --verify 'make test' --merge"),
    "compare": ("fleet compare jwt-A1 jwt-A2", "fleet compare jwt-A1 jwt-A2 --patch"),
    "conflicts": ("fleet conflicts", "fleet conflicts --json"),
    "merge": ("fleet merge fix-login docs", "fleet merge 'jwt-*' --dry-run"),
    "pr": ("fleet pr fix-login", "fleet pr fix-login --draft --dry-run"),
    "stats": ("fleet stats", "fleet stats --since 7d --coder claude"),
    # Queue
    "ready": ("fleet ready", "fleet ready -n 5 --json"),
    "queue": ("fleet queue", "fleet queue --json"),
    "queue migrate": ("fleet queue migrate beads --dry-run", "fleet queue migrate sqlite"),
    # Supervisor and hosts
    "run": ("fleet run", "fleet run start --slots 4"),
    "run foreground": ("fleet run foreground", "fleet run foreground --quiet --slots 4"),
    "run start": ("fleet run start", "fleet run start --slots 4 --coder codex"),
    "run stop": ("fleet run stop", "fleet run stop --stop-agents"),
    "run restart": ("fleet run restart", "fleet run restart --slots 8"),
    "run status": ("fleet run status", "fleet run status --json"),
    "pause": ("fleet pause", "fleet pause && fleet wait --all && fleet resume"),
    "resume": ("fleet resume", "fleet resume && fleet tasks"),
    "log": ("fleet log 20", "fleet log --follow"),
    "hosts": ("fleet hosts", "fleet hosts --json"),
    "hosts drain": ("fleet hosts drain build-2", "fleet hosts drain build-2 && fleet wait --all"),
    "hosts undrain": ("fleet hosts undrain build-2", "fleet hosts undrain build-2 && fleet hosts"),
    "hosts forget": ("fleet hosts forget build-2", "fleet hosts forget build-2 && fleet hosts"),
    "accounts": ("fleet accounts", "fleet accounts --json"),
    "accounts unpark": ("fleet accounts unpark claude", "fleet accounts unpark claude/work"),
    "gc": ("fleet gc --dry-run", "fleet gc --finished"),
    "backup": ("fleet backup ~/fleet.tar.gz", "fleet backup --json nightly.tar.gz"),
    "restore": ("fleet restore ~/fleet.tar.gz", "fleet restore --json nightly.tar.gz"),
    # Set up
    "init": ("fleet init --permissions user", "fleet init --home --queue beads"),
    "config": ("fleet config --show-origin", "fleet config set coder=codex"),
    "config show": ("fleet config show", "fleet config show --raw"),
    "config get": ("fleet config get coder", "fleet config get verify.command --show-origin"),
    "config set": ("fleet config set coder=codex", "fleet config set --project verify.command='make test'"),
    "config edit": ("fleet config edit", "EDITOR=nano fleet config edit --project"),
    "config validate": ("fleet config validate", "fleet config validate && fleet run restart"),
    "trust": ("fleet trust --show", "fleet trust --yes"),
    "doctor": ("fleet doctor", "fleet doctor --json"),
    "coders": ("fleet coders", "fleet coders --json"),
    "mcp": ("claude mcp add fleet -- fleet mcp", "codex mcp add fleet -- fleet mcp"),
    "completion": ('eval "$(fleet completion bash)"', "fleet completion fish | source"),
    "demo": ("fleet demo", "fleet demo --keep"),
    "update": ("fleet update --check", "fleet update --yes"),
    "help": ("fleet help names", "fleet help merge"),
    "version": ("fleet version", "fleet version --json"),
}


def write_examples(command: str) -> str:
    """Return the examples of a command, such as `create` or `workflow run`. Return "" if it has none."""
    lines = EXAMPLES.get(command, ())
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)]) if lines else ""
