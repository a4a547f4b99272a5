"""Which tree a commit has, once it was found: ids name contents, so it is true for ever and in every repository."""

from __future__ import annotations

MOST = 20_000

_trees: dict[str, str] = {}


def known_tree(commit: str) -> str:
    """The tree of a commit that was seen; empty: it was not."""
    return _trees.get(commit, "")


def know(commit: str, tree: str) -> str:
    """Keep which tree a commit has; that tree."""
    if len(_trees) >= MOST:
        _trees.clear()
    _trees[commit] = tree
    return tree


def is_known(commit: str) -> bool:
    """Whether it was seen to be a commit."""
    return commit in _trees
