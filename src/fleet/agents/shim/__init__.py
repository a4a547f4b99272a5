"""The shim: the small parent process of one agent. It outlives the supervisor; nothing of the agent outlives it.

control    the control socket
jsonlines  JSON without the json module, for a quick start
lifetime   one agent from start to end
loop       an event loop over descriptors
mounts     a process's own view of the file system
output     one output stream of the agent, kept up to a limit
process    start the agent's process, and write its stdin
program    the program that the launcher starts
record     the exit record
sandbox    restrict a process: network, folders, writes
sandboxed  start the shim of a restricted process
starter    fork shims from a process that has the shim in memory
terminal   run as the command of a terminal's pane
title      set the command line that other processes see
tree       list, freeze and kill the agent's processes
weak       hold descendants without PID namespaces
"""
