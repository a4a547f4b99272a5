"""The shim: the small parent process of one agent. It outlives the supervisor; nothing of the agent outlives it.

control    the control socket
jsonlines  JSON without the json module, whose import would take a third of the shim's start
lifetime   one agent from start to end
loop       an event loop over descriptors with callbacks
mounts     a process's view of the file system
output     one output stream of the agent
process    the agent's process
program    the shim's program
record     the exit record
sandbox    restrictions on a process
sandboxed  the shim of a restricted process
starter    the starter
terminal   the shim as the command of a terminal's pane
title      the visible command line of a process, so that a forked shim shows its folder there
tree       the agent's process tree
weak       the shim for systems without PID namespaces
"""
