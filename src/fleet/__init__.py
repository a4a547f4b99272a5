"""fleet runs a fleet of coding agents through one durable queue.

__main__     the program `fleet`
assembly     open stores, launchers and clusters; alone in naming products
descent      find the run from which this process descends
files        write files completely or not at all; open untrusted paths
home         the paths in the home
wake         wake a supervisor through its named pipe
actions/     what users and agents can do
agents/      launch agents, in a terminal or without
beads/       the queue if bd holds the tasks
cli/         the command line
coders/      one adapter for each agent product
core/        nouns and pure decisions
git/         repositories, worktrees, saved work and merging
hosts/       several machines that share one queue
mcp/         the tools for agents
proof/       evidence, receipts, verification and scope
settings/    settings: declared, checked, merged and saved
store/       the queue in SQLite or PostgreSQL
supervisor/  claim tasks, and run agents
workflows/   workflow files, unrolled into plain graphs
"""

__version__ = "0.1.0"
