"""Git worktrees of agents: creating, keeping, saving and removing them. Nothing that an agent wrote is trusted here."""
