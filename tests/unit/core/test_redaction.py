"""Removal of secrets from text. All other text stays."""

import base64
import random
import string
import sysconfig
from pathlib import Path
from urllib.parse import quote

import pytest

from fleet.core.redaction import MARK, Redactor, secret_values

MIXED = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"

# This file contains no whole key, so that no scanner reports it: only the prefixes and the alphabets.
KINDS = {
    "anthropic": ("sk-ant-" + "api03-", MIXED + "_-", 95),
    "anthropic oauth": ("sk-ant-" + "oat01-", MIXED + "_-", 95),
    "openai": ("sk" + "-", MIXED, 48),
    "openai project": ("sk" + "-proj-", MIXED + "_-", 80),
    "openai service account": ("sk" + "-svcacct-", MIXED + "_-", 80),
    "openrouter": ("sk" + "-or-v1-", HEX, 64),
    "stripe": ("sk" + "_live_", MIXED, 24),
    "stripe restricted": ("rk" + "_live_", MIXED, 24),
    "github personal": ("gh" + "p_", MIXED, 36),
    "github oauth": ("gh" + "o_", MIXED, 36),
    "github user": ("gh" + "u_", MIXED, 36),
    "github server": ("gh" + "s_", MIXED, 36),
    "github refresh": ("gh" + "r_", MIXED, 76),
    "github fine-grained": ("github" + "_pat_", MIXED + "_", 82),
    "aws": ("AK" + "IA", string.ascii_uppercase + string.digits, 16),
    "aws temporary": ("AS" + "IA", string.ascii_uppercase + string.digits, 16),
    "google": ("AI" + "za", MIXED + "_-", 35),
    "slack bot": ("xox" + "b-2153-", MIXED, 24),
    "slack user": ("xox" + "p-2153-", MIXED, 24),
    "slack app": ("xapp" + "-1-", MIXED, 24),
    "webhook": ("wh" + "sec_", MIXED, 32),
    "supabase": ("sb" + "p_", HEX, 40),
    "gitlab": ("gl" + "pat-", MIXED, 20),
    "npm": ("np" + "m_", MIXED, 36),
    "hugging face": ("h" + "f_", MIXED, 34),
    "daytona": ("dt" + "n_", MIXED, 64),
    "tavily": ("tv" + "ly-dev-3", MIXED, 32),
    "linear": ("lin" + "_api_", MIXED, 40),
    "pypi": ("py" + "pi-AgEIcHlwaS5vcmc", MIXED + "_-", 120),
    "digitalocean": ("dop" + "_v1_", HEX, 64),
    "sendgrid": ("SG" + ".0aBcDeFgHiJkLmNoPqRsTu.", MIXED, 43),
    "jwt": ("ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.", MIXED + "_-", 43),
}


def a_secret(kind: str, seed: int) -> tuple[str, str]:
    """Return a secret and the part of it that must not be shown."""
    begin, letters, length = KINDS[kind]
    choose = random.Random(f"{kind}-{seed}")
    body = "".join(choose.choice(letters) for _ in range(length - 2)) + "7Z"[: 1 if letters is HEX else 2]
    body = body.replace("--", "a1").strip("-_") if letters is not HEX else body
    return begin + body, body


FRAMES = (
    "{}",
    "key={}",
    "see '{}' there",
    '{{"key": "{}"}}',
    "export KEY={}\n",
    "({})",
    "https://host/{}?x=1",
    "a\\n{}",
)


@pytest.mark.parametrize("kind", KINDS)
def test_secret_of_each_kind_is_removed_wherever_it_occurs(kind: str) -> None:
    redactor = Redactor()
    for seed, frame in enumerate(FRAMES):
        whole, hidden = a_secret(kind, seed)
        told = redactor.text(frame.format(whole))
        assert hidden not in told and hidden[4:-4] not in told, frame
        assert told == frame.format(MARK)


HEADERS = {
    "Authorization: Bearer {}": "Authorization: Bearer {}",
    "authorization: bearer {}": "authorization: bearer {}",
    "curl -H 'X-Api-Key: {}' x": "curl -H 'X-Api-Key: {}' x",
    '{{"x-api-key": "{}"}}': '{{"x-api-key": "{}"}}',
    '{{\\"x-api-key\\": \\"{}\\"}}': '{{\\"x-api-key\\": \\"{}\\"}}',
    "Authorization: Basic {}": "Authorization: Basic {}",
    "postgres://app:{}@db:5432/x": "postgres://app:{}@db:5432/x",
    "redis://:{}@cache": "redis://:{}@cache",
    "AccountName=a;AccountKey={};": "AccountName=a;AccountKey={};",
}


@pytest.mark.parametrize("frame", HEADERS)
def test_text_around_a_secret_stays(frame: str) -> None:
    secret = "d9Kx0aPq7ZmN3vB5tR8yW2cE6uI1oL4sD9Kx0aPq"
    assert Redactor().text(frame.format(secret)) == frame.format(MARK)


def a_key(kind: str = "", break_: str = "\n") -> tuple[str, str]:
    body = base64.b64encode(random.Random(kind).randbytes(600)).decode()
    lines = break_.join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {kind}PRIVATE KEY-----{break_}{lines}{break_}-----END {kind}PRIVATE KEY-----", body


@pytest.mark.parametrize("break_", ["\n", "\r\n", "\\n"])
@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH "])
def test_private_key_is_removed(kind: str, break_: str) -> None:
    pem, body = a_key(kind, break_)
    told = Redactor().text(f"before {pem} after")
    assert told == f"before -----BEGIN {kind}PRIVATE KEY-----{MARK}-----END {kind}PRIVATE KEY----- after"
    cut = Redactor().text(pem[:400])
    assert body[:16] not in cut and cut.endswith(MARK)


def test_known_values_are_removed_first_and_longest_first() -> None:
    redactor = Redactor(["correct horse", "correct horse battery", "short", ""])
    assert redactor.text("say correct horse battery, correct horse, short") == f"say {MARK}, {MARK}, short"


def test_known_value_is_found_in_encoded_forms() -> None:
    secret = 'p"ss w\\rd/+é&0123456789'
    redactor = Redactor([secret])
    assert redactor.text(quote(secret, safe="")) == MARK
    assert redactor.text('{"k": "p\\"ss w\\\\rd/+é&0123456789"}') == f'{{"k": "{MARK}"}}'
    for before in ("", "u", "us", "usr"):
        encoded = base64.b64encode(f"{before}{secret}:more".encode()).decode()
        told = redactor.text(encoded)
        assert MARK in told
        assert len(told) - len(MARK) <= 4 * (len(before) + len(":more") + 4) // 3, "a few bits at its borders at most"


def test_values_are_redacted_at_any_depth() -> None:
    whole, _ = a_secret("github personal", 1)
    told = Redactor(["hunter2hunter2"]).redact(
        {"a": [1, None, {"b": ("hunter2hunter2", 2.5)}], whole: True, "Authorization": "opaque", "authorization": 1}
    )
    assert told == {"a": [1, None, {"b": [MARK, 2.5]}], MARK: True, "Authorization": MARK, "authorization": 1}


def test_endless_nesting_is_bounded() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "too deep" in str(Redactor().redact(deep))


INNOCENT = (
    "task-list-item-2024-very-long-css-class-name-0123456789",
    "the disk-usage of risk-assessment1234567890123456789012 is fine",
    "3b18e512dba79e4c8300dd08aeb37f8e728b8dad",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "123e4567-e89b-12d3-a456-426614174000",
    'f"postgres://{user}:{password}@{host}/db" and "https://$USER:$PASS@host"',
    "http://localhost:8080/a@b and git@github.com:owner/repo.git and ssh://git@host:22/x",
    "https://user:password@example.com",
    'headers = {"x-api-key": settings.anthropic_key, "Authorization": f"Bearer {token}"}',
    "Bearer authentication is required; the bearer of this letter-of-recommendation",
    "def hf_load_pretrained_weights_from_hub(): pass  # npm_config_registry_url_for_packages",
    "sk-learn and sk_learn; ghp_ is a prefix; AKIA is too; eyJ begins a JWT; xoxb-your-token-here",
    'PEM = "-----BEGIN PRIVATE KEY-----\\n" + body + "\\n-----END PRIVATE KEY-----\\n"',
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQ\n-----END CERTIFICATE-----",
    "basic authorization: basically everything works",
    "an expression such as x://y:z",
)


@pytest.mark.parametrize("text", INNOCENT)
def test_ordinary_text_stays(text: str) -> None:
    assert Redactor(["another secret"]).text(text) == text


def test_base64_images_stay() -> None:
    picture = base64.b64encode(random.Random(7).randbytes(3_000_000)).decode()
    assert Redactor().text(picture) == picture
    assert Redactor().text(base64.urlsafe_b64encode(random.Random(8).randbytes(1_000_000)).decode()).count(MARK) == 0


def test_five_megabytes_of_code_stay_as_they_are() -> None:
    redactor, read, changed = Redactor(["not in there at all"]), 0, 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        lines = path.read_text("utf-8", "replace").splitlines()
        changed += sum(redactor.text(line) != line for line in lines)
        read += sum(map(len, lines))
        if read > 5_000_000:
            break
    assert read > 5_000_000
    assert changed <= 5, "of about 130,000 lines"


def test_hostile_text_is_redacted_to_its_end() -> None:
    hostile = ["-----BEGIN PRIVATE KEY-----" * 20_000, "://" + "a:" * 200_000, "bearer " * 100_000, "sk-" * 200_000]
    hostile += ["-----BEGIN PRIVATE KEY-----\n" + "A: b\n" * 100_000, "eyJ" * 200_000, "x-api-key: " * 50_000]
    for text in hostile:  # quadratic code takes minutes; bench_limits has a limit
        Redactor().text(text)


def test_secrets_of_an_environment_are_found_by_name() -> None:
    env = {
        "ANTHROPIC_API_KEY": "value-one",
        "FLEET_RUN_TOKEN": "value-two",
        "DB_PASSWORD": "value-three",
        "SHORT_TOKEN": "abc",
        "SSH_AUTH_SOCK": "/tmp/agent.sock",
        "AWS_SHARED_CREDENTIALS_FILE": "/home/ada/.aws",
        "KEYBOARD": "german-layout",
        "PATH": "/usr/bin",
    }
    assert secret_values(env) == ["value-one", "value-two", "value-three"]
