"""The supervisor: claim tasks, run agents, and decide the end of each run."""
