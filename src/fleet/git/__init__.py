"""Git: repositories, worktrees, saved work, merging and trust.

Imports core, home and files. Used by everything above.

branches             find branches and the commits that names mean
bundles              branches and fleet's refs in one file of a backup
clean_checkout       check out a commit for a command that fleet runs
commits              create commits without a worktree
copied_files         copy credentials and ignored files into a worktree
diffs                differences between two commits or trees
ignored_files        find ignored files that exist nowhere else
mirror               mirrors of repositories of other hosts
name_readers         keep a git process that resolves names
nested_repositories  preserve repositories inside a worktree
process              call git without hooks, filters or an agent's settings
remote               check addresses of remotes, and run git against them
repository           find a user's repository, and lock it for writes
send                 push results to a remote
sharing              share the result of a call among threads
trust                find what a repository could make git run
untrusted_folders    walk and delete folders where agents can write
view                 read and write a repository with fleet's settings only
work_done            the work on a branch since its base
worktree             create and remove worktrees
worktree_index       read the index of a worktree as data
worktree_place       read a worktree's git folder as data
worktree_records     read git's records about worktrees as data
merge/               merge branches without a worktree
save/                save uncommitted work before a worktree is removed
"""
