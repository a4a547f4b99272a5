"""Several machines that share one queue, behind the port `Cluster`.

Imports the supervisor's run code and everything below. Assembly opens a cluster; the supervisor sees only the port.

alone         the cluster of one machine
backoff       wait longer each time something is unreachable
cluster       the port to other hosts
fence         freeze agents whose claim cannot be renewed
fetch         fetch a task that another host worked on
host_service  work for other hosts while the supervisor runs
log_server    serve events of this host's runs to other hosts
parcel        artifacts that travel with a branch
push          push the work of this host
removals      remove worktrees that were killed from another host
shared        the cluster of hosts that share a queue
"""
