"""Several machines that share one queue, behind one port.

The supervisor and its runs know `Cluster` alone. `assembly.open_cluster` chooses its implementation once, when the
supervisor starts: `Alone` for a store of one machine, `Shared` for a store that several hosts share. A supervisor of
one machine imports nothing else from here.

cluster   the port `Cluster`, and `Leases`, its part about claims
alone     the implementation for one machine
shared    the implementation for several hosts
host_row  take this host's row without taking another machine's
"""
