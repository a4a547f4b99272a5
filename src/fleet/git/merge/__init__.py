"""Merging without a worktree: try, stack, and move a branch with its checkout.

branch_checkout  checkouts of a branch
branch_move      moving a branch to a new commit with its checkout
collisions       collisions
stack            stacking several branches
trial            trial merges
"""
