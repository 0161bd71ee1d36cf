"""Passwords and tokens: found in URIs and in the environment, and kept out of every text that is shown or stored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import NoReturn
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
_SECRET = re.compile(r"pass|pwd|token|secret|key|credential|sig", re.IGNORECASE)
_AUTHORITY = re.compile(r"([\w.~-]*|\[[\w:.%]+\])(:\d*)?(?![^/?#;])")
#: What has no double slash and yet is no user and password: a drive, a file, a resource of AWS.
_PLAIN = re.compile(r"(?:[A-Za-z]|file|sqlite|arn):")
_TOKENS = re.compile(
    r"(?:MLFLOW|DATABRICKS|AWS|AZURE|ARM|GOOGLE|PG|MYSQL).*(?:PASSWORD|PWD|TOKEN|SECRET|_KEY|_KEY_ID|CONNECTION_STRING)"
)
_URIS = re.compile(r"MLFLOW_.*_UR[IL]|(?:HTTPS?|ALL)_PROXY", re.IGNORECASE)
_IN_TEXT = re.compile(r"""(?<=://)(?![/@])(?:[^\s/'"<>]*|[^\s'"<>]*:[^\s'"<>]*)@""")
_PARAMETER = re.compile(rf"""([?&][^=\s&]*(?:{_SECRET.pattern})[^=\s&]*=)[^\s&'"<>)]+""", re.IGNORECASE)
#: Shorter secrets are also parts of words, and of one character there is no end.
_SHORT = 4


def masked(uri: str) -> str:
    """The URI without passwords, tokens and the like; of one that can be read in two ways, no more than the scheme.

    >>> masked("postgresql://me:pa55@host/db?sslmode=require&password=x")
    'postgresql://***@host/db?sslmode=require&password=***'
    """
    start, hidden, shown = _parted(uri)
    if shown is None:
        return start + HIDDEN
    head, mark, query = _query(shown)
    parts = [key + sign + (HIDDEN if secret else value) for key, sign, value, secret in query]
    return start + (HIDDEN + "@" if hidden is not None else "") + head + mark + "&".join(parts)


def redacted(text: str, *uris: str) -> str:
    """The text without the secrets of the URIs and of the environment, as they are, percent-encoded and decoded.

    Also without the user and password of any other URI, and without parameters of a URI that name a secret.
    """
    table: dict[str, str] = {}
    for uri in {*uris, *(value for name, value in os.environ.items() if _URIS.fullmatch(name))}:
        if masked(uri) != uri:
            table |= dict.fromkeys(_forms(_secrets(uri)), HIDDEN) | {uri: masked(uri)}
    tokens = (value for name, value in os.environ.items() if _TOKENS.fullmatch(name))
    table = dict.fromkeys(_forms(tokens), HIDDEN) | table
    known = sorted((secret for secret in table if len(secret) > 1), key=len, reverse=True)
    if known:
        whole = [re.escape(s) if len(s) >= _SHORT else rf"(?<!\w){re.escape(s)}(?!\w)" for s in known]
        text = re.sub("|".join(whole), lambda found: table[found[0]], text)
    return _PARAMETER.sub(rf"\1{HIDDEN}", _IN_TEXT.sub(HIDDEN + "@", text))


def tells_a_secret(error: BaseException, *uris: str) -> bool:
    """Whether the text of an error, or of any that led to it, holds a secret."""
    waiting, seen = [error], {}
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen[id(one)] = one
            waiting += [one.__cause__, one.__context__]
    return any(redacted(text, *uris) != text for one in seen.values() for text in (str(one), repr(one)))


def raise_alone(error: BaseException) -> NoReturn:
    """Raise an error that carries no other: those that led to it may hold a secret, and a log shows them all."""
    try:
        raise error
    finally:
        error.__cause__ = error.__context__ = None


def _parted(uri: str) -> tuple[str, str | None, str | None]:
    """Scheme, user and password if there are any, and the rest; where they cannot be told apart, all of it and None.

    Parsers do not agree where a password with special characters ends: urllib stops at ``/``, ``?`` and ``#``, SQLAlchemy at
    the first ``@``. The last ``@`` is behind it for all of them.
    """
    found = re.match(r"[A-Za-z][\w+.-]*://", uri)
    start = found[0] if found else ""
    rest = uri[len(start) :]
    if re.split(r"[+:]", start)[0].lower() in ("sqlite", "file") and rest.startswith("/"):
        return start, None, rest
    login, at, behind = rest.rpartition("@")
    if not at or ("/" in login and ":" not in login):
        login, behind = None, rest
    elif re.search(r"[?#].*=", login, re.DOTALL):  # a password, or a parameter with an @
        return start, rest, None
    known = _AUTHORITY.match(behind) is not None
    if start or login is not None or ":" not in rest:
        return (start, login, behind) if known or not (start or login is not None) else (start, rest, None)
    return ("", None, rest) if known or _PLAIN.match(rest) else ("", rest, None)


def _query(rest: str) -> tuple[str, str, list[tuple[str, str, str, bool]]]:
    """What is before the parameters, what begins them, and each as key, sign, value and whether that is a secret."""
    head, mark, query = re.fullmatch(r"([^?#;]*)([?#;]?)(.*)", rest, re.DOTALL).groups()
    parts, before = [], False
    for part in query.split("&") if mark else ():
        key, sign, value = part.partition("=")
        if not sign and before:  # the end of a secret that has an & in it
            parts.append(("", "", key, True))
            continue
        plain = unquote_plus(value)
        nested = ("=" in plain and _SECRET.search(plain)) or re.search(r":.*@", plain, re.DOTALL)
        secret = bool(sign and (_SECRET.search(unquote(key)) or nested))
        before |= secret
        parts.append((key, sign, value, secret))
    return head, mark, parts


def _secrets(uri: str) -> Iterator[str]:
    """The secrets of a URI, with each part that a parser may take for one of its own."""
    _, login, rest = _parted(uri)
    if login is not None:
        own = login.partition(":")[2] if ":" in login else login
        yield from (login, own)
        cuts = [cut.end() for cut in re.finditer(r"[:/?#@]", own)]
        yield from (own[cut:] for cut in cuts if len(own) - cut >= _SHORT)
        yield from (part for part in re.split(r"[:/?#@&=]", own) if len(part) >= _SHORT)
    if rest is not None:
        yield from (value for _, _, value, secret in _query(rest)[2] if secret)


def _forms(secrets: Iterable[str]) -> Iterator[str]:
    """Each secret as it is, decoded, encoded in the ways of urllib and requests, and as repr shows it."""
    for secret in secrets:
        for plain in {secret, unquote(secret), unquote_plus(secret)}:
            yield from (quote(plain, safe=safe) for safe in ("", "/", "!#$%&'()*+,/:;=?@[]~"))
            yield from (plain, quote_plus(plain), repr(plain)[1:-1], ascii(plain)[1:-1])
