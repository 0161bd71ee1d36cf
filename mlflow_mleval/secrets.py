"""Passwords and tokens: kept out of every message. Data is never touched: params, tags, metrics and
names stay what they are, even where somebody's password is ``auto`` or ``1234``."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from html.entities import codepoint2name
from itertools import product
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"
_SECRET = re.compile(r"pass|pwd|token|secret|key|credential|sig", re.IGNORECASE)
_AUTHORITY = re.compile(r"([\w.~-]*|\[[\w:.%]+\])(:\d*)?(?![^/?#;])")
#: What has no double slash and yet is no user and password: a drive, a file, a resource of AWS.
_PLAIN = re.compile(r"(?:[A-Za-z]|file|sqlite|arn):")
_TOKENS = re.compile(
    r"_?(?:MLFLOW|DATABRICKS|AWS|AZURE|ARM|GOOGLE|PG|MYSQL)"
    r".*(?:PASSWORD|PASSPHRASE|PWD|TOKEN|SECRET|_KEY|_KEY_ID|CONNECTION_STRING)"
)
_URIS = re.compile(r"MLFLOW_.*_UR[IL]|(?:HTTPS?|ALL)_PROXY", re.IGNORECASE)
_LOGIN = ("USERNAME", "PASSWORD")
_CREDENTIALS = re.compile(
    r"^\s*mlflow_tracking_(username|password)[\s=:]+(.*?)\s*$", re.IGNORECASE | re.MULTILINE
)
_IN_TEXT = re.compile(r"""([\w+.-]*://)(?![/@])([^\s/'"<>]*|[^\s'"<>]*:[^\s'"<>]*)@""")
_PARAMETER = re.compile(
    rf"""([?&][^=\s&]*(?:{_SECRET.pattern})[^=\s&]*=)[^\s&'"<>)]+""", re.IGNORECASE
)
#: What follows in a header; a word without digits is no token.
_HEADER = re.compile(r"\b(Basic|Bearer)(\s+)(?=[^\s\"']*[\d=])[\w+/.~-]{8,}=*", re.IGNORECASE)
_USER = re.compile(r"(?:[\w.+-]|%40)+")
#: On the web a user may be a token: one this long is hidden, and one without password but a word.
_LONG = 16
_WORD = re.compile(r"[A-Za-z._-]+")
_SHORT = 4  #: shorter parts of a password are parts of words, too
_UNREADABLE = "\ufffd"  #: what a decoder shows of bytes in another encoding
_ENTITIES = codepoint2name | {ord("'"): "apos"}
#: What may be data: short, or words between signs, with digits at their ends only.
_MIXED = 7
_WORDS = re.compile(r"[\W_]*(?:[^\W\d_]{0,15}\d{0,15}(?:[\W_]+|$))*")
#: Where a word begins, also behind an escape that ends with letters.
_ESCAPES = (r"\\[abfnrtv]", r"%[0-9A-Fa-f]{2}", r"\\x[0-9a-f]{2}", r"\\u[0-9a-f]{4}")
_BEGIN = rf"(?:(?<!\w)|{'|'.join(f'(?<={escape})' for escape in _ESCAPES)})(?<!\d\.)"
_END = r"(?!\w|\.\d|[\w+.-]*://)"
#: Addresses with passwords that were met in a store, the latest last.
_met: deque[str] = deque(maxlen=100)


def masked(uri: str) -> str:
    """The URI without passwords and tokens; of one that can be read in two ways, the scheme alone.
    >>> masked("postgresql://me:pa55@host/db?sslmode=require&password=x")
    'postgresql://me:***@host/db?sslmode=require&password=***'
    """
    start, login, shown = _parted(uri)
    if shown is None:
        return start + HIDDEN
    head, mark, query = _query(shown)
    parts = [key + sign + (HIDDEN if secret else value) for key, sign, value, secret in query]
    who = "" if login is None else _masked_login(start, login) + "@"
    return start + who + head + mark + "&".join(parts)


def redacted(text: str, *uris: str, typed: bool = False) -> str:
    """A message without the secrets of the URIs and of this machine, however they are spelled, and
    those of any other URI or header; one that reads like a word is hidden as a word only, and stays
    in what somebody typed, for there it more likely names a method or a value."""
    of_machine = (value for name, value in os.environ.items() if _URIS.fullmatch(name))
    addresses = {*uris, *_met, *of_machine}
    shown = {uri: fit for uri in addresses if (fit := masked(uri)) != uri}
    # An address that is fit to be shown stays whole, even where a secret is also its user or host.
    shown |= {fit: fit for fit in map(masked, addresses) if "://" in fit}
    secrets = _all_secrets(addresses, words=not typed)
    if shown or secrets:
        longest_first = tuple(sorted(shown, key=len, reverse=True))
        pattern = _any_of(longest_first, secrets)
        text = pattern.sub(lambda hit: shown.get(hit[0], HIDDEN), text)
    text = _IN_TEXT.sub(lambda hit: f"{hit[1]}{_masked_login(hit[1], hit[2])}@", text)
    text = _HEADER.sub(rf"\1\2{HIDDEN}", text)
    return _PARAMETER.sub(rf"\1{HIDDEN}", text)


def remember(uri: str) -> None:
    """From now on keep the passwords of this address out of messages; of many, the last hundred."""
    if masked(uri) != uri:
        with suppress(ValueError):  # threads take turns here
            _met.remove(uri)
        _met.append(uri)


def tells_a_secret(error: BaseException, *uris: str) -> bool:
    """Whether the text of an error, or of any that led to it, holds a secret."""
    chain = [error]
    for one in chain:  # which grows meanwhile
        led = (one.__cause__, one.__context__)
        chain += [each for each in led if each is not None and each not in chain]
    texts = [text for one in chain for text in (str(one), repr(one))]
    return any(redacted(text, *uris) != text for text in texts)


def raise_alone(error: BaseException) -> NoReturn:
    """Raise an error that carries no other: a log shows those that led to it, and their secrets."""
    try:
        raise error
    finally:
        error.__cause__ = error.__context__ = None


def _all_secrets(addresses: Iterable[str], words: bool) -> tuple[str, ...]:
    """The secrets of these addresses and of this machine, the longest first."""
    secrets = {value for name, value in os.environ.items() if _TOKENS.fullmatch(name)}
    secrets.update(*map(_beside_passwords, addresses))
    logins = [tuple((_parted(uri)[1] or "").partition(":")[::2]) for uri in addresses]
    logins.append(tuple(os.environ.get(f"MLFLOW_TRACKING_{what}", "") for what in _LOGIN))
    with suppress(OSError, RuntimeError):  # there is none, or no home
        file = Path("~/.mlflow/credentials").expanduser()
        lines = _CREDENTIALS.findall(file.read_text(encoding="utf-8", errors="replace"))
        held = {what.upper(): value for what, value in lines}
        logins.append(tuple(held.get(what, "") for what in _LOGIN))
    users, passwords = map(set, zip(*logins, strict=True))
    passwords.discard("")
    secrets.update(*map(_parts, passwords))
    secrets.update([*map(unquote, secrets), *map(unquote_plus, secrets)])
    # and user and password in base64, as they stand in a header
    pairs = {*map(":".join, product(users, passwords))}
    encoders = ("utf-8", "latin-1"), (b64encode, urlsafe_b64encode)
    for pair, encoding, encode in product(pairs | {*map(unquote, pairs)}, *encoders):
        secrets.add(encode(pair.encode(encoding, "replace")).decode().rstrip("="))
    chosen = [one for one in secrets if len(one) > 1 and (words or not _reads_like_words(one))]
    return tuple(sorted(chosen, key=lambda one: (-len(one), one)))


def _beside_passwords(uri: str) -> Iterator[str]:
    """The other secrets of a URI: a user that may be a token, and parameters."""
    start, login, rest = _parted(uri)
    if login and _masked_login(start, login) == HIDDEN:
        yield from _parts(login.partition(":")[0])
    yield from (value for _, _, value, secret in _query(rest or "")[2] if secret)


def _reads_like_words(secret: str) -> bool:
    return len(secret) < _MIXED or _WORDS.fullmatch(secret) is not None


@lru_cache(maxsize=32)
def _any_of(addresses: tuple[str, ...], secrets: tuple[str, ...]) -> re.Pattern[str]:
    """The secrets, in any spelling; what reads like a word not as a part of others."""
    patterns = [*map(re.escape, addresses)]
    for secret in secrets:
        spelled = "".join(map(_spelled, secret))
        if _reads_like_words(secret):
            begin = _BEGIN if re.match(r"\w", secret[0]) else ""
            end = _END if re.match(r"\w", secret[-1]) else ""
            patterns.append(begin + spelled + end)
        else:
            patterns.append(f"(?i:{spelled})")
    return re.compile("|".join(patterns))


@lru_cache(maxsize=1024)
def _spelled(character: str) -> str:
    """A pattern: the character as it is, and as URIs, HTML, JSON and Python spell it."""
    if character.isascii() and character.isalnum():
        return character
    code = ord(character)
    utf8 = character.encode("utf-8", "surrogatepass")
    ways = [character, repr(character)[1:-1], ascii(character)[1:-1], json.dumps(character)[1:-1]]
    ways += [f"\\u{code:04x}", f"&#{code};", f"&#x{code:x};"]
    ways += [f"&{_ENTITIES[code]};"] if code in _ENTITIES else []
    for raw in (utf8, character.encode("latin-1", "replace")):
        quoted = "".join(f"%{byte:02X}" for byte in raw)
        ways += [quoted, quoted.replace("%", "%25"), repr(raw)[2:-1], raw.decode("latin-1")]
    patterns = [*map(re.escape, sorted(set(ways), key=len, reverse=True))]
    if character.isspace():
        patterns += [r"\s+", r"\+"]
    if not character.isascii() and character != _UNREADABLE:
        patterns += [r"\?", f"(?:{_spelled(_UNREADABLE)})+"]
    # What is quoted again has up to three backslashes before its own.
    return rf"\\{{0,3}}(?i:{'|'.join(patterns)})"


def _parted(uri: str) -> tuple[str, str | None, str | None]:
    """Scheme, user and password, and the rest; where they cannot be told apart, all of it and None.
    Parsers do not agree where a password with special characters ends: urllib stops at ``/``, ``?``
    and ``#``, SQLAlchemy at the first ``@``. The last ``@`` is behind it for all of them."""
    scheme = re.match(r"[A-Za-z][\w+.-]*://", uri)
    start = scheme[0] if scheme else ""
    rest = uri[len(start) :]
    if re.split(r"[+:]", start)[0].lower() in ("sqlite", "file") and rest.startswith("/"):
        return start, None, rest
    login: str | None
    login, at, behind = rest.rpartition("@")
    if not at or ("/" in login and ":" not in login):
        login, behind = None, rest
    elif re.search(r"[?#].*=", login, re.DOTALL):  # a password, or a parameter with an @
        return start, rest, None
    has_host = _AUTHORITY.match(behind) is not None
    if start or login is not None:
        return (start, login, behind) if has_host else (start, rest, None)
    if has_host or ":" not in rest or _PLAIN.match(rest):
        return "", None, rest
    return "", rest, None


def _masked_login(start: str, login: str) -> str:
    """User and password as they may be shown: the user, unless that may be a token."""
    user, colon, password = login.partition(":")
    web = start.lower().startswith("http")
    plain = _USER.fullmatch(user) and not (web and len(user) >= _LONG)
    if colon and password:
        return f"{user}:{HIDDEN}" if plain else HIDDEN
    return login if plain and (not web or _WORD.fullmatch(user)) else HIDDEN


def _query(rest: str) -> tuple[str, str, list[tuple[str, str, str, bool]]]:
    """What is before the parameters, what begins them, and each: key, sign, value, is it secret."""
    head = re.split("[?#;]", rest, maxsplit=1)[0]
    mark = rest[len(head) : len(head) + 1]
    query = rest[len(head) + 1 :]
    parts = []
    before = False
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


def _parts(password: str) -> Iterator[str]:
    """The password, and each part of it that a parser may take for something else."""
    yield password
    cuts = [cut.end() for cut in re.finditer(r"[:/?#@]", password)]
    cuts += [cut.start() for cut in re.finditer("%", password)]
    yield from (password[cut:] for cut in cuts if len(password) - cut >= _SHORT)
    yield from (part for part in re.split(r"[:/?#@&=]", password) if len(part) >= _SHORT)
