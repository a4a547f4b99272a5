"""Saving: uncommitted work goes under `refs/fleet/saved` before a worktree is removed.

commit_parts         the parts of a saved commit
leftovers            committing uncommitted work of an agent to its branch, without hooks and without force
snapshot             snapshots of a worktree
survey               surveys of a worktree and of the repositories inside it, to find what git does not hold
unreachable_commits  commits that only a worktree holds
worktree             saving a worktree before its removal
"""
