"""Git: repositories, worktrees, saved work, merging and trust.

Imports core, settings and files. Used by the supervisor, proof, hosts and actions.

branches             branches, and the commits that names refer to, through fleet's view of the repository
bundles              branches and fleet's refs in one git bundle for a backup, and restoring them without replacing an
clean_checkout       clean checkouts of a commit, for commands that fleet runs
commits              commits without a worktree
copied_files         copying files into a worktree that git does not put there
diffs                differences between two commits or trees
ignored_files        ignored files of a checkout that exist nowhere else, such as a database or an `.env`, without wha
mirror               repositories of other hosts
name_readers         long-lived `git cat-file --batch-check` processes, one for each repository, which resolve names
nested_repositories  repositories inside a worktree, including submodules
process              calls of git, with argument lists only, a clean environment, and no hook, filter or setting of an
remote               remotes of a repository
repository           the user's repositories
send                 pushing results to a remote
sharing              sharing the result of a call among threads
trust                the parts of a repository that could make git run programs, read as data, so that changes can be
untrusted_folders    folders where agents can write
view                 fleet's view of a repository
work_done            the work on a branch since its base
worktree             creating and removing worktrees
worktree_index       Git's list of a worktree's files, and the worktree's own index read as data
worktree_place       an agent's worktree and its git folder, read as data because the agent could write all of it
worktree_records     Git's records about worktrees, read as data
merge/               merging without a worktree
save/                saving
"""
