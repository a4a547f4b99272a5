"""The shim: the small parent process of one agent. It outlives the supervisor; nothing of the agent outlives it.

The shim uses only the standard library, starts with `-I -S` and imports nothing of fleet outside this folder. Each shim
manages one folder:

- `lock`: held (flock) while the shim or anything in its namespace lives. A free lock means that nothing is left.
- `spec.json`: what to start. It is removed once read, because its environment may hold secrets.
- `control`: a socket for lines of JSON, see below
- `stdout`, `stderr`: the agent's output, up to a cap; `stdout.tail`, `stderr.tail`: the newest output beyond the cap
- `exit.json`: how the agent ended, complete or absent; `shim.error`: only if the shim itself failed

On the socket the shim sends the first message: `{"version": 1, "state": {…}}`. A request is `{"id": 1, "do": "signal",
"number": 9}`. Its answer has the same id and either `ok` with the requested values, or `error`. Requests:

- `state`
- `signal` (number)
- `write` (text), `close_stdin`
- `kill`
- `cpu` (also returns `rss`, in KiB)
- `freeze` (until one of the next two), `thaw` (without limit), `deadline` (seconds, and the time `at` which they were
  counted; see deadline.py). These three answer with `fenced` and `frozen`, the total seconds that the agent was frozen.

Unasked, the shim sends `{"grew": [stdout_bytes, stderr_bytes]}`: at once, then at most every 50 ms. At the end it sends
`{"ended": {…}}` with the content of `exit.json`.

In a terminal (terminal.py) the agent prints to the terminal, whose log is `stdout`. `started` records the start.
Nothing can be written to the agent's stdin.

A restricted process (apart.py) enters its own namespaces before it executes the requested program. The exit record
lists the effective restrictions as `apart`. `crowded` means that it was killed for having too many processes.

macOS has neither namespaces nor subreapers nor /proc, so only the agent's process group is held. Untested.
"""
