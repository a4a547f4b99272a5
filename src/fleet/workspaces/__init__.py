"""Where agents work: a git worktree of their own, made, kept, saved, removed. Nothing here trusts what agents wrote."""
