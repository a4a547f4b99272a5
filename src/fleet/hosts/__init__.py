"""Several machines that share one queue, behind one port.

The supervisor and its runs call only the port `Cluster`. `assembly.open_cluster` chooses the implementation once, when
the supervisor starts: `Alone` if one machine has the queue, `Shared` if several hosts share it. A supervisor of one
machine imports nothing else from here. Of the actions, `fetch_elsewhere` uses `log_protocol`.

cluster       the port `Cluster`, and `Leases`, its part about claims
alone         the implementation for one machine
shared        the implementation for several hosts
host_row      take this host's row, unless another machine works under the same id
fence         freeze the agents whose claims cannot be renewed in time
fetch         fetch the repository, branch and artifacts of a task that another host worked on
push          push branches and receipts, and again later if the remote is unreachable
parcel        pack and unpack the artifacts of a task
tails         store the end of each run's events in the queue
removals      remove worktrees that were killed from another host
worktrees     note what other hosts can read about a worktree, and remove it while the supervisor runs
log_server    give other hosts the events of this host's runs
log_protocol  what hosts send one another about events
host_service  the loop that does these things beside the supervisor
backoff       wait longer each time something is unreachable
"""
