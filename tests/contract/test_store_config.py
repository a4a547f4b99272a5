"""The contract of all stores for bd's settings."""

from fleet.store.base import Store


def test_settings_are_kept_until_they_are_deleted(store: Store) -> None:
    assert store.config.all() == {}
    store.config.set("status.custom", "review:wip")
    store.config.set("issue_prefix", "ü '\"")
    store.config.set("status.custom", "")
    assert store.config.all() == {"issue_prefix": "ü '\"", "status.custom": ""}
    store.config.set("status.custom", None)
    store.config.set("never.made", None)
    assert store.config.all() == {"issue_prefix": "ü '\""}
