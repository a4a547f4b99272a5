"""Removal of secrets from text before it is stored: known values first, then anything that looks like a key."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

MARK = "[redacted]"
SHORTEST = 8  # a shorter value is too likely to be an ordinary word
DEEPEST = 64

_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"  # also after a line end in JSON
_DIGIT = r"(?=[A-Za-z._~+/=-]*\d)"  # tokens contain a digit; words of prose and identifiers usually do not
_PEM = r"[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"

# Each expression is tried only if the text contains its word, because a word search is a hundred times faster. `re`
# compiles an expression on first use, and most commands use none.
_TOKENS = (
    ("sk-ant-", r"sk-ant-[\w-]{16,}"),
    ("sk-or-v1-", r"sk-or-v1-[A-Za-z0-9]{24,}"),
    ("sk-", r"sk-(?:(?:proj|svcacct|admin)-[\w-]{20,}|(?=[A-Za-z]*\d)[A-Za-z0-9]{20,})"),
    ("k_live_", r"[sr]k_live_[A-Za-z0-9]{16,}"),
    ("gh", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    ("github_pat_", r"github_pat_\w{22,}"),
    ("AKIA", r"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("ASIA", r"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("AIza", r"AIza[\w-]{35}(?![A-Za-z0-9])"),
    ("xox", r"xox[baprs]-(?=[A-Za-z-]*\d)[A-Za-z0-9-]{10,}"),
    ("xapp-", r"xapp-(?=[A-Za-z-]*\d)[A-Za-z0-9-]{10,}"),
    ("whsec_", r"whsec_(?=[A-Za-z+/]*[A-Z0-9])[A-Za-z0-9+/]{24,}={0,2}"),
    ("sbp_", r"sbp_[a-f0-9]{32,}"),
    ("glpat-", r"glpat-[\w-]{20,}"),
    ("npm_", r"npm_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{30,}"),
    ("hf_", r"hf_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{30,}"),
    ("dtn_", r"dtn_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{24,}"),
    ("tvly-", r"tvly-(?=[A-Za-z-]*\d)[A-Za-z0-9-]{20,}"),
    ("lin_api_", r"lin_api_[A-Za-z0-9]{24,}"),
    ("pypi-", r"pypi-AgE[\w-]{32,}"),
    ("SG.", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("dop_v1_", r"dop_v1_[a-f0-9]{40,}"),
    ("eyJ", r"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}"),
)

_KNOWN_FORMS = [(marker, f"(?a){_START}{token}", MARK) for marker, token in _TOKENS] + [
    (
        "PRIVATE KEY",
        r"(-----BEGIN " + _PEM + r")(?:\s|\\[rn]|[A-Za-z0-9-]{1,40}: [^\n\\]{1,200})*+[A-Za-z0-9+/]{16}"
        r"[A-Za-z0-9+/=\s\\]*+(-----END " + _PEM + ")?",
        rf"\1{MARK}\2",
    ),
    (
        "://",
        r"""(?<=://)([^\s/:@"'<>`]{0,128}):"""
        r"(?!(?:pass|passwd|password|pwd|secret|token|key|x+|\.+|\*+)@|[${<*]|%[s(])"
        r"""[^\s/@"'<>`]{1,512}@""",
        rf"\1:{MARK}@",
    ),
    ("AccountKey=", r"(AccountKey=)[A-Za-z0-9+/]{32,}={0,2}", rf"\1{MARK}"),
]

# Headers, case-insensitive.
_HEADERS = (
    ("bearer", rf"(?i)\b(bearer\s{{1,4}}){_DIGIT}[A-Za-z0-9._~+/-]{{16,}}=*", rf"\1{MARK}"),
    (
        "basic",
        r"""(?i)(authorization["']?\s*[:=]\s*["']?basic\s{1,4})[A-Za-z0-9+/]{8,}={0,2}""",
        rf"\1{MARK}",
    ),
    (
        "api-key",
        rf"""(?i)(\bx-(?:goog-)?api-key\\?["']?\s*[:=]\s*\\?["']?){_DIGIT}[A-Za-z0-9._~+/=-]{{12,}}""",
        rf"\1{MARK}",
    ),
)
_SECRET_KEYS = frozenset({"authorization", "proxy-authorization", "x-api-key", "x-goog-api-key"})

_SECRET_NAME = r"(?:^|_)(?:\w*KEY|\w*TOKEN|\w*SECRET|PASS|\w*PASSWORD|PASSWD|CREDENTIALS?|AUTH)(?:_|$)"


def secret_values(env: Mapping[str, str]) -> list[str]:
    """Return the values of environment variables whose names mark them as secret, except paths."""
    named = (value for name, value in env.items() if re.search(_SECRET_NAME, name.upper()))
    return [value for value in named if len(value) >= SHORTEST and not value.startswith(("/", "~", "./"))]


class Redactor:
    """A pure replacer of secrets by a mark. Created once for a run and used for all of its text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets if len(secret) >= SHORTEST for form in _list_secret_forms(secret)}
        # Longest first, because a secret may begin with another one.
        self._exact = sorted(forms, key=lambda form: (-len(form), form))

    def redact(self, value: Any) -> Any:
        """Return the value without secrets in its text, in keys and values at any depth."""
        return self._redact_any(value, 0)

    def text(self, text: str) -> str:
        for secret in self._exact:
            if secret in text:
                text = text.replace(secret, MARK)
        for marker, form, replacement in _KNOWN_FORMS:
            if marker in text:
                text = re.sub(form, replacement, text)
        lowered = text.lower()
        for marker, form, replacement in _HEADERS:
            if marker in lowered:
                text = re.sub(form, replacement, text)
        return text

    def _redact_any(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= DEEPEST:
            return "[too deep]"
        if isinstance(value, dict):
            return {
                self._redact_any(key, depth): self._redact_item(key, item, depth + 1) for key, item in value.items()
            }
        return [self._redact_any(item, depth + 1) for item in value]

    def _redact_item(self, key: object, item: Any, depth: int) -> Any:
        if isinstance(key, str) and isinstance(item, str) and key.lower().replace("_", "-") in _SECRET_KEYS:
            return MARK
        return self._redact_any(item, depth)


def _list_secret_forms(secret: str) -> set[str]:
    """Return the forms of a secret: plain, in JSON, in URLs, and its recognizable part inside base64 at any offset."""
    raw = secret.encode("utf-8", "surrogateescape")
    percent = "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in raw)
    json_text = secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    # The first and last characters share bits with their neighbors. Only those between belong to the secret alone.
    inner = {b64encode(b"\0" * pad + raw)[(0, 2, 3)[pad] :].decode().rstrip("=")[:-1] for pad in range(3)}
    return {secret, percent, json_text} | {core for core in inner if len(core) >= SHORTEST + 2}
