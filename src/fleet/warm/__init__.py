"""Warm commands: a process of the supervisor has the command line imported, and forks for each command (decision 009).

`asking` is the end of whoever typed a command, `serving` the process that forks, `answering` the fork that becomes the
command, `keeping` the supervisor's part. `likeness` says whether the fork would be what the caller is.
"""
