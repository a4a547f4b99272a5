"""Saving: uncommitted work goes under `refs/fleet/saved` before a worktree is removed.

commit_parts         build the commit that holds a worktree
leftovers            commit what an agent left uncommitted
snapshot             record a worktree's files as a tree
survey               find what git does not hold
unreachable_commits  find commits that only a worktree holds
worktree             save a worktree before its removal
"""
