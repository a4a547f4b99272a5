"""Addresses of remotes: accepted ones, and the secrecy of their credentials."""

import pytest

from fleet.core.errors import BadInput
from fleet.git.remote import checked, shown, without_secret

TAKEN = (
    "ssh://git@example.invalid/a/b.git",
    "ssh://git@example.invalid:2222/a/b.git",
    "https://example.invalid/a/b.git",
    "https://user:word@example.invalid/a/b.git",
    "https://[2001:db8::1]:8443/a.git",
    "git://example.invalid/a.git",
    "file:///srv/git/a.git",
    "/srv/git/a b.git",
    "git@example.invalid:a/b.git",
    "example.invalid:b.git",
    "git@[2001:db8::1]:b.git",
)
REFUSED = (
    "",
    "-",
    "--upload-pack=touch /tmp/x",
    "-oProxyCommand=touch",
    "ext::sh -c touch% /tmp/x",
    "ext::/bin/sh",
    "fd::17",
    "transport::address",
    "::x",
    "ssh://-oProxyCommand=touch/x",
    "ssh://git@-oProxyCommand=touch/x",
    "ssh://-oX@example.invalid/x",
    "https://-host/x",
    "https:///x",
    "http://example.invalid/a.git",
    "ftp://example.invalid/a",
    "rsync://example.invalid/a",
    "file://host/a.git",
    "file://a.git",
    "https://example.invalid/a\nb",
    "https://example.invalid/a b",
    "/srv/a\0b",
    "/srv/\x1b[31m",
    "relative/path",
    "../up.git",
    "https://example.invalid/" + "a" * 2000,
)


@pytest.mark.parametrize("url", TAKEN)
def test_usual_remote_addresses_are_accepted_unchanged(url: str) -> None:
    assert checked(url) == url


@pytest.mark.parametrize("url", REFUSED)
def test_address_that_could_run_a_program_or_be_an_option_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="cannot be a remote of a task") as refused:
        checked(url)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("url", ["--upload-pack=touch", "-x", "ext::sh", "ext::sh -c true", "a::b", "http://h/a"])
def test_refused_address_is_not_treated_as_a_path(url: str) -> None:
    with pytest.raises(BadInput):
        checked(url, top="/srv/top")


@pytest.mark.parametrize(("url", "meant"), [("../up.git", "/srv/up.git"), ("in/side", "/srv/top/in/side")])
def test_relative_path_starts_at_the_repository(url: str, meant: str) -> None:
    assert checked(url, top="/srv/top") == meant


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://user:word@example.invalid/a.git", "https://example.invalid/a.git"),
        ("https://ghp_0123456789@example.invalid/a.git", "https://example.invalid/a.git"),
        ("ssh://git:word@example.invalid/a.git", "ssh://git@example.invalid/a.git"),
        ("ssh://git@example.invalid/a.git", "ssh://git@example.invalid/a.git"),
        ("git@example.invalid:a.git", "git@example.invalid:a.git"),
        ("/srv/user:word@here/a.git", "/srv/user:word@here/a.git"),
    ],
)
def test_stored_address_contains_no_secret(url: str, kept: str) -> None:
    assert without_secret(url) == kept


def test_error_about_an_address_contains_no_secret() -> None:
    with pytest.raises(BadInput) as refused:
        checked("http://user:hunter2hunter2@example.invalid/a.git")
    assert "hunter2" not in str(refused.value) and "hunter2" not in shown("https://x:hunter2@h/a\x1b")
