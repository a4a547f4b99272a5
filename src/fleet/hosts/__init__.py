"""Several machines that share one queue, behind the port `Cluster`.

Imports the supervisor's run code and everything below. Assembly opens a cluster; the supervisor sees only the port.

alone         the cluster of a machine that does not share its queue
backoff       wait longer each time something is unreachable
cluster       the port to other hosts
fence         leases
fetch         fetch a task that another host worked on
host_service  work of a host for other hosts while its supervisor runs
log_server    a server that gives other hosts the events of this host's runs and nothing else
parcel        artifacts that travel with a branch
push          push the work of this host to its remotes
removals      remove worktrees of this host that were killed from another host, as `fleet kill` would remove them here
shared        the cluster of several hosts that share a queue
"""
