"""Merging without a worktree: try, stack, and move a branch with its checkout.

branch_checkout  find the checkout of a branch, and run git in it
branch_move      move a branch to a new commit with its checkout
collisions       find branches that git could not merge
stack            put branches on top of each other, and find the bad ones
trial            put one branch on top of a commit
"""
