"""Secrets of this process: what it prints, and what a server says, passes `redacted`, which removes them."""

import base64
import contextlib
import functools
import html
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

_MASK = "***"
_SHORTEST = 8  # shorter texts are words of messages, not secrets
_VARIABLE = re.compile("(TOKEN|COOKIE|PASSWORD|SECRET|ACCESS_KEY|API_KEY)$")
_LOGIN = re.compile(r"(?<=://)[^\s/:]*:[^\s/]+(?=@)")  # user and password in a URL
_secrets: set[str] = set()


def know(*secrets: str | None) -> None:
    """Remove these texts from now on."""
    _secrets.update(secret for secret in secrets if secret and len(secret) >= _SHORTEST)


def know_headers(*headers: str | None) -> None:
    """Remove the credentials of an Authorization or a Cookie header."""
    for header in filter(None, headers):
        words = [word.rstrip(";") for word in header.split()]
        know(*words, *(word.partition("=")[2] for word in words))
        if words[0] == "Basic":
            with contextlib.suppress(ValueError):
                know(base64.b64decode(words[-1]).decode().partition(":")[2])


def redacted(text: str) -> str:
    """Return a text without the known secrets, and without the passwords of URLs."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = _pattern(secret).sub(_MASK, text)
    return _LOGIN.sub(_MASK, text)


@contextlib.contextmanager
def redacted_output() -> Iterator[None]:
    """Redact stdout and stderr, with the log, until the block ends; secrets in variables are known."""
    _secrets.clear()
    know(*(value for name, value in os.environ.items() if _VARIABLE.search(name)))
    out, err = (cast(TextIO, _Redacted(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


class _Redacted:
    """A stream whose texts are redacted."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(redacted(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@functools.lru_cache(maxsize=64)
def _pattern(secret: str) -> re.Pattern[str]:
    """Return a pattern for a secret, as it is or as URLs, HTML, JSON and base64 write it."""
    forms, encoded = [secret], secret.encode()
    for offset in range(3):  # where it begins within longer data, whose digits then differ
        for alphabet in (b"+/", b"-_"):
            digits = base64.b64encode(bytes(offset) + encoded, alphabet).decode()
            forms.append(digits[-(-offset * 8 // 6) : (offset + len(encoded)) * 8 // 6])
    return re.compile("|".join("".join(map(_character, form)) for form in forms), re.IGNORECASE)


def _character(character: str) -> str:
    """Return a pattern for one character, as it is or escaped."""
    if character.isalnum():
        return character
    code, in_html = ord(character), html.escape(character)
    named = f"{in_html}|" if in_html != character else ""
    return rf"(?:%(?:25)*{code:02x}|&#0*{code};|&#x0*{code:x};|{named}\\u{code:04x}|\\?{re.escape(character)})"
