"""The shim: the tiny parent of one agent. It outlives the supervisor, and nothing of the agent outlives it.

Standard library only and started with `-I -S`; it imports nothing of fleet but this folder. One shim keeps one folder:

- `lock`: held (flock) while the shim or anything in its namespace lives; free means that nothing of it is left
- `spec.json`: what to start; removed once read, because the environment in it may hold secrets
- `control`: a socket that speaks lines of JSON, see below
- `stdout`, `stderr`: what the agent printed, up to a cap; `stdout.tail`, `stderr.tail`: the newest of what is beyond it
- `exit.json`: how it ended, whole or absent; `shim.error`: only if the shim itself failed

On the socket the shim speaks first: `{"version": 1, "state": {…}}`. A request is `{"id": 1, "do": "signal", "number":
9}`; its answer has the same id and either `ok` and what was asked for, or `error`. There are `state`, `signal`
(number), `write` (text), `close_stdin`, `kill`, `cpu` (also `rss`, in KiB), `tails`, `freeze` (until one of the next
two), `thaw` (for ever) and `deadline` (seconds, and the moment `at` which they were counted; see deadline.py): these
three answer with `fenced` and `frozen`, the seconds that it stood still in all. Unasked it says `{"grew":
[stdout_bytes, stderr_bytes]}`, at once and then at most every 50 ms, and at the end `{"ended": {…}}`, as it stands in
`exit.json`.

In a terminal (terminal.py) the agent prints on the terminal, whose log is `stdout`, `started` says that it was begun,
and nothing can be written to its stdin.

A process that is to be kept apart (apart.py) goes into namespaces of its own before it becomes what was asked for; what
of that could be had stands in the record as `apart`, and `crowded` that it was killed for having too many processes.

On macOS there are neither namespaces nor subreapers nor /proc: only the agent's process group is held. Not exercised.
"""
