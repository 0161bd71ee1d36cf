"""Names: in sentences, in stores, of modules that load late; and what must never stand in a text,
passwords and tokens.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import unicodedata
from base64 import b64encode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from html.entities import codepoint2name
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote, unquote_plus

# --------------------------------------------------------------------------------------------------
# Names in sentences, which names a store can keep, and which paths from outside may be joined to a
# folder.

#: How many cells or names an error lists before it only counts.
SHOWN = 12
#: Characters of a name that an error shows.
LONG = 80
#: The longest tag that MLflow stores, and the longest name of a measure: a metric's key less our
#: longest prefix.
MAX_TAG = 8_000
MAX_MEASURE = 238
#: Letters that have no shape: fillers of Hangul and the empty pattern of Braille.
_SHAPELESS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
_MEASURE = re.compile(r"[A-Za-z0-9_./-]+")
#: What reads as a drive on Windows, at the start of any part; and the bytes of one part that file
#: systems take.
_DRIVE = re.compile(r"(^|/)[A-Za-z]:")
_LONGEST_PART = 255


def some(names: Iterable[object], most: int = SHOWN) -> str:
    """The first few names, long ones cut in the middle, and how many more there are.

    >>> some(range(14))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more'
    """
    names = list(names)
    shown = [
        n if len(n) <= LONG else f"{n[: LONG // 2]}…{n[-LONG // 2 + 1 :]}"
        for n in map(str, names[:most])
    ]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown) + more


def quoted(value: object) -> str:
    """A cell or name of a file as an error shows it, a long one cut.

    >>> quoted("f1"), len(quoted("x" * 100))
    ("'f1'", 58)
    """
    text = str(value)
    return repr(text if len(text) <= 60 else f"{text[:40]}…{text[-15:]}")


def nearest(wrong: Iterable[object], names: Iterable[object]) -> list[str]:
    """For each wrong name the one that was probably meant, however it is spelled; none where
    nothing is near.

    >>> nearest(["ndgc_at_5", "Hamming loss", "latency"], ["ndcg_at_5", "hamming_loss", "f1"])
    ['ndcg_at_5', 'hamming_loss']
    """
    plain = {_plain(name): str(name) for name in names}
    wrong = list(map(str, wrong))
    near = (get_close_matches(_plain(name), plain, n=1, cutoff=0.7) for name in wrong)
    meant = dict.fromkeys(plain[name] for matches in near for name in matches)
    return [name for name in meant if name not in wrong]


def _plain(name: object) -> str:
    return re.sub(r"[\s-]+", "_", str(name).lower())


def did_you_mean(wrong: Iterable[object], names: Iterable[object]) -> str:
    """A question to stand behind the sentence that names what is wrong; empty where nothing is
    near.

    >>> did_you_mean(["theshold"], ["threshold", "folds"])
    " Did you mean 'threshold'?"
    """
    near = nearest(wrong, names)
    return f" Did you mean {some(map(repr, near))}?" if near else ""


def count(n: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "measure"), count(1200, "method"), count(2, "class")
    ('1 measure', '1,200 methods', '2 classes')
    """
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def in_words(n: int) -> str:
    """A number as it stands in a sentence: up to twelve in letters.

    >>> in_words(2), in_words(12), in_words(1200)
    ('two', 'twelve', '1,200')
    """
    small = [
        "no",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ]
    return small[n] if n < len(small) else f"{n:,}"


Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """By key what stands beside it, such as names by the reason that they share.

    >>> grouped([("failed", "a"), ("running", "b"), ("failed", "c")])
    {'failed': ['a', 'c'], 'running': ['b']}
    """
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def plural(noun: str) -> str:
    """A noun of several.

    >>> plural("method"), plural("class"), plural("policy")
    ('methods', 'classes', 'policies')
    """
    if noun.endswith("cy"):
        return f"{noun[:-1]}ies"
    return f"{noun}{'es' if noun.endswith('s') else 's'}"


#: Verbs whose plural is not the singular without its -s.
_OF_SEVERAL = {"is": "are", "was": "were", "has": "have", "does": "do"}


def agree(subject: int | Sized, verb: str) -> str:
    """A verb, given as of one thing, in the number of its subject: a number, or a collection.

    >>> agree(1, "is"), agree(2, "is"), agree(["a", "b"], "leads"), agree(2, "does not")
    ('is', 'are', 'lead', 'do not')
    """
    if (len(subject) if isinstance(subject, Sized) else subject) == 1:
        return verb
    word, blank, rest = verb.partition(" ")
    return f"{_OF_SEVERAL.get(word) or word.removesuffix('s')}{blank}{rest}"


def all_of(n: int) -> str:
    """How all of several things are called.

    >>> all_of(2), all_of(1200)
    ('both', 'all 1,200')
    """
    return "both" if n == 2 else f"all {n:,}"


def span(low: object, high: object, to: str = " to ") -> str:
    """A range in words, or the one value that it is.

    >>> span(2, 5), span(3, 3), span("0.1", "0.2", "–")
    ('2 to 5', '3', '0.1–0.2')
    """
    return str(low) if low == high else f"{low}{to}{high}"


def measure_name_problem(name: str) -> str | None:
    """Why a measure's name cannot be part of a metric key; None where it can.

    >>> measure_name_problem("f1")
    >>> measure_name_problem("f1 (%)")
    'a name may hold letters A-Z a-z, digits and _ . / - only'
    """
    if not _MEASURE.fullmatch(name):
        return "a name may hold letters A-Z a-z, digits and _ . / - only"
    if posixpath.normpath(f"-/{name}") != f"-/{name}":
        return "a name must not read as a path with empty or dotted parts"
    if len(name) > MAX_MEASURE:
        return f"a name may have at most {MAX_MEASURE} characters"
    return None


def text_problem(text: str) -> str | None:
    """Why a method's or dataset's name cannot be stored as a tag; None where it can."""
    if not text:
        return "is empty"
    if len(text) > MAX_TAG:
        return f"has {len(text):,} characters, more than the {MAX_TAG:,} that MLflow stores"
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "holds half a surrogate pair, which is no text"
    return None


def inside(folder: str | Path, path: str) -> Path:
    """A path from outside, joined to the folder: every place that joins one does it here.

    Raises
    ------
    ValueError
        It is not below the folder, or a link on its way leads out of it.

    >>> inside("/data", "mleval/folds.parquet").as_posix()
    '/data/mleval/folds.parquet'
    >>> inside("/data", "../.bashrc")
    Traceback (most recent call last):
    ValueError: the path '../.bashrc' holds an empty part, . or .., and must lie below a folder
    """
    check_paths([path])
    joined = Path(folder, path)
    if not Path(os.path.realpath(joined)).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"the path {quoted(path)} leads out of {folder} by a link")
    return joined


def check_paths(paths: Collection[str]) -> None:
    """Raise a ValueError that names every path which cannot be a file below a folder, or lies below
    a file among them.
    """
    problems = {path: path_problem(path) for path in paths}
    if wrong := [
        f"the path {quoted(path)} {problem}" for path, problem in problems.items() if problem
    ]:
        raise ValueError(f"{some(wrong)}, and must lie below a folder")
    parents = {parent: path for path in paths for parent in _parents(path)}
    if clash := [
        f"{quoted(path)} and {quoted(parents[path])}" for path in paths if path in parents
    ]:
        raise ValueError(f"of {some(clash)} the first is a file and a folder")


def path_problem(path: str) -> str | None:
    """Why a path cannot be a file below a folder, on any system, as it stands or percent-decoded;
    None where it can.

    >>> path_problem("mleval/100%.csv")
    >>> path_problem("C:/x"), path_problem("%2e%2e/x")
    ('names a drive', 'holds an empty part, . or ..')
    """
    decoded = path
    while (once := unquote(decoded)) != decoded:
        decoded = once
    return next(
        (problem for text in (path, decoded) if (problem := _plain_path_problem(text))), None
    )


def _plain_path_problem(text: str) -> str | None:
    if problem := text_problem(text):
        return problem
    parts = text.split("/")
    problems = {
        "holds a control character": any(
            unicodedata.category(character) == "Cc" for character in text
        ),
        "is absolute": text.startswith("/"),
        "holds a backslash": "\\" in text,
        "names a drive": _DRIVE.search(text) is not None,
        "holds an empty part, . or ..": not {"", ".", ".."}.isdisjoint(parts),
        f"has a part of more than {_LONGEST_PART} bytes": max(len(part.encode()) for part in parts)
        > _LONGEST_PART,
    }
    return next((problem for problem, holds in problems.items() if holds), None)


def _parents(path: str) -> list[str]:
    return [path[:end] for end, character in enumerate(path) if character == "/"]


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Names that are different text and look the same: composed or not, or with characters that are
    not to be seen.

    >>> look_alikes(["caf\u00e9", "cafe\u0301", "tea", "te\u200ba"]) == [["caf\u00e9", "cafe\u0301"], ["tea", "te\u200ba"]]
    True
    """  # noqa: E501
    groups = grouped((_seen(name), name) for name in dict.fromkeys(names))
    return [group for group in groups.values() if len(group) > 1]


def _seen(name: str) -> str:
    """What is seen of a name."""
    if name.isascii() and name.isprintable():
        return name
    plain = unicodedata.normalize("NFKC", name)
    hidden = ("Cc", "Cf", "Cn", "Co")
    return "".join(
        c
        for c in plain
        if unicodedata.category(c) not in hidden
        and c not in _SHAPELESS
        and not 0xFE00 <= ord(c) <= 0xFE0F
        and not 0xE0100 <= ord(c) <= 0xE01EF
    ).strip()


# --------------------------------------------------------------------------------------------------
# Messages that speak of arguments: the reader of a command line knows these as options, the reader
# of the page as fields.


@dataclass(frozen=True)
class Argument:
    """An argument of Python in a message, and its value: a text, True, or what stands for one, such
    as ``("NAME",)``.

    >>> print(Argument("missing", "worst"), Argument("minimize", ("NAME",)), Argument("measures"))
    `missing='worst'` `minimize=[NAME]` `measures=`
    """

    name: str
    value: str | bool | tuple[str] | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"`{self.name}=`"
        value = f"[{self.value[0]}]" if isinstance(self.value, tuple) else repr(self.value)
        return f"`{self.name}={value}`"

    @property
    def plain(self) -> str:
        """The value as it is typed into a field; empty where the argument says it all."""
        value = self.value[0] if isinstance(self.value, tuple) else self.value
        return value if isinstance(value, str) else ""


class Message(str):
    """A text with arguments, in the words of Python; `worded` gives those of another surface.

    >>> message = Message("Choose ", Argument("missing", "worst"), ".")
    >>> message, message.worded(lambda argument: f"--{argument.name} {argument.plain}")
    ("Choose `missing='worst'`.", 'Choose --missing worst.')
    """

    parts: tuple[object, ...]

    def __new__(cls, *parts: object) -> Message:
        whole: list[object] = []
        for part in parts:
            text = part if isinstance(part, Argument) else str(part)
            whole += text.parts if isinstance(text, Message) else [text]
        message = super().__new__(cls, "".join(map(str, whole)))
        message.parts = tuple(whole)
        return message

    def __str__(self) -> str:
        return self  # so that str(error) is still a Message

    def worded(self, word: Wording) -> str:
        parts = (word(part) if isinstance(part, Argument) else str(part) for part in self.parts)
        return "".join(parts)


#: How a surface says an argument.
Wording = Callable[[Argument], str]
#: How one says which way a metric is better.
DECLARE = Message(
    Argument("minimize", ("NAME",)),
    " where smaller is better, ",
    Argument("maximize", ("NAME",)),
    " where larger is",
)
#: How the directions that names suggest are confirmed.
PROPOSED = Message(Argument("directions", "proposed"))


def worded(text: object, word: Wording) -> str:
    """A text, or that of an error, in the words of a surface."""
    message = str(text)
    return message.worded(word) if isinstance(message, Message) else message


def argument_of(error: Exception) -> str:
    """The argument that an error is about, by which its text begins; empty where it does not.

    >>> argument_of(ValueError("`alpha` must lie between 0 and 1, got 2."))
    'alpha'
    """
    about = re.match("`([a-z_]+)`", str(error))
    return about[1] if about else ""


def joined(between: str, texts: Iterable[str]) -> Message:
    """Texts one after the other, as ``between.join(texts)``."""
    first, *others = [*texts] or [""]
    return Message(first, *(part for text in others for part in (between, text)))


# --------------------------------------------------------------------------------------------------
# Passwords and tokens: kept out of every message.
#
# They come from addresses, the environment and MLflow's file of credentials. Messages are errors,
# warnings and tracebacks. Data is never touched: params, tags, metrics and names stay what they
# are, even where somebody's password is ``auto`` or ``1234``.

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
#: Shorter parts of a password are parts of words, too.
_SHORT = 4
#: What a decoder shows of bytes in another encoding.
_UNREADABLE = "\ufffd"
_ENTITIES = codepoint2name | {ord("'"): "apos"}
#: What may be data: short, or words between signs, with digits at their ends only.
_MIXED = 7
_WORDS = re.compile(r"[\W_]*(?:[^\W\d_]{0,15}\d{0,15}(?:[\W_]+|$))*")
#: Where a word begins, also behind an escape that ends with letters.
_ESCAPES = (r"\\[abfnrtv]", r"%[0-9A-Fa-f]{2}", r"\\x[0-9a-f]{2}", r"\\u[0-9a-f]{4}")
_BEGIN = rf"(?:(?<!\w)|{'|'.join(f'(?<={escape})' for escape in _ESCAPES)})(?<!\d\.)"
_END = r"(?!\w|\.\d|[\w+.-]*://)"
#: Addresses with passwords that were met in a store, the latest last.
_met: OrderedDict[str, None] = OrderedDict()
_MOST_MET = 100


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


def redacted(text: str, *uris: str) -> str:
    """A message without the secrets of the URIs and of this machine, however they are spelled.

    Also without the password of any other URI, parameters of a URI that name a secret, and what a
    header says behind Basic or Bearer. A secret that reads like a word is hidden as a word only.
    """
    return _redacted(text, uris, words=True)


def without_passwords(text: str, *uris: str) -> str:
    """What somebody typed, such as a command or a filter, fit to be shown.

    A secret that reads like a word stays: there, it more likely names a method or a value.
    """
    return _redacted(text, uris, words=False)


def remember(uri: str) -> None:
    """From now on keep the passwords of this address out of messages; of many, the last hundred."""
    if masked(uri) != uri:
        _met[uri] = None
        _met.move_to_end(uri)
        while len(_met) > _MOST_MET:
            _met.popitem(last=False)


def tells_a_secret(error: BaseException, *uris: str) -> bool:
    """Whether the text of an error, or of any that led to it, holds a secret."""
    waiting: list[BaseException | None] = [error]
    seen: dict[int, BaseException] = {}
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen[id(one)] = one
            waiting += [one.__cause__, one.__context__]
    texts = [text for one in seen.values() for text in (str(one), repr(one))]
    return any(redacted(text, *uris) != text for text in texts)


def raise_alone(error: BaseException) -> NoReturn:
    """Raise an error that carries no other: a log shows those that led to it, and their secrets."""
    try:
        raise error
    finally:
        error.__cause__ = error.__context__ = None


def _redacted(text: str, uris: Iterable[str], words: bool) -> str:
    of_machine = (value for name, value in os.environ.items() if _URIS.fullmatch(name))
    addresses = {*uris, *_met, *of_machine}
    shown = {uri: masked(uri) for uri in addresses}
    # An address that is fit to be shown stays whole, even where a secret is also its user or host.
    shown = {uri: fit for uri, fit in shown.items() if fit != uri}
    shown |= {fit: fit for fit in map(masked, addresses) if "://" in fit}
    secrets = _all_secrets(addresses, words)
    if shown or secrets:
        longest_first = tuple(sorted(shown, key=len, reverse=True))
        pattern = _any_of(longest_first, secrets)
        text = pattern.sub(lambda hit: shown.get(hit[0], HIDDEN), text)
    text = _IN_TEXT.sub(lambda hit: f"{hit[1]}{_masked_login(hit[1], hit[2])}@", text)
    text = _HEADER.sub(rf"\1\2{HIDDEN}", text)
    return _PARAMETER.sub(rf"\1{HIDDEN}", text)


def _all_secrets(addresses: Iterable[str], words: bool) -> tuple[str, ...]:
    """The secrets of these addresses and of this machine, the longest first."""
    secrets = {value for name, value in os.environ.items() if _TOKENS.fullmatch(name)}
    secrets.update(*map(_secrets, addresses))
    logins = [*map(_login, addresses), *_own_logins()]
    passwords = {password for _, password in logins if password}
    secrets.update(*map(_parts, passwords))
    secrets.update([*map(unquote, secrets), *map(unquote_plus, secrets)])
    pairs = {f"{user}:{password}" for user, _ in logins for password in passwords}
    secrets.update(*map(_in_a_header, pairs | {*map(unquote, pairs)}))
    chosen = [one for one in secrets if len(one) > 1 and (words or not _reads_like_words(one))]
    return tuple(sorted(chosen, key=lambda one: (-len(one), one)))


def _own_logins() -> list[tuple[str, str]]:
    """User and password as MLflow takes them: from the environment, and from its own file."""
    user, password = (os.environ.get(f"MLFLOW_TRACKING_{what}", "") for what in _LOGIN)
    logins = [(user, password)]
    try:
        file = Path("~/.mlflow/credentials").expanduser()
        lines = _CREDENTIALS.findall(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, RuntimeError):  # there is none, or no home
        return logins
    held = {what.upper(): value for what, value in lines}
    return [*logins, tuple(held.get(what, "") for what in _LOGIN)]


def _in_a_header(pair: str) -> Iterator[str]:
    """User and password in base64."""
    for encoding in ("utf-8", "latin-1"):
        content = pair.encode(encoding, "replace")
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(content).decode().rstrip("=")


def _reads_like_words(secret: str) -> bool:
    return len(secret) < _MIXED or _WORDS.fullmatch(secret) is not None


@lru_cache(maxsize=32)
def _any_of(addresses: tuple[str, ...], secrets: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join([*map(re.escape, addresses), *map(_pattern, secrets)]))


def _pattern(secret: str) -> str:
    """The secret, in any spelling; what reads like a word not as a part of others."""
    spelled = "".join(map(_spelled, secret))
    if not _reads_like_words(secret):
        return f"(?i:{spelled})"
    begin = _BEGIN if re.match(r"\w", secret[0]) else ""
    end = _END if re.match(r"\w", secret[-1]) else ""
    return begin + spelled + end


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
    and ``#``, SQLAlchemy at the first ``@``. The last ``@`` is behind it for all of them.
    """
    scheme = re.match(r"[A-Za-z][\w+.-]*://", uri)
    start = scheme[0] if scheme else ""
    rest = uri[len(start) :]
    if re.split(r"[+:]", start)[0].lower() in ("sqlite", "file") and rest.startswith("/"):
        return start, None, rest
    login: str | None
    login, at, behind = rest.rpartition("@")
    if not at or ("/" in login and ":" not in login):
        login = None
        behind = rest
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


def _login(uri: str) -> tuple[str, str]:
    """User and password of a URI, both empty where it has none."""
    _, login, _ = _parted(uri)
    user, _, password = (login or "").partition(":")
    return user, password


def _secrets(uri: str) -> Iterator[str]:
    """The secrets of a URI, with each part that a parser may take for one of its own."""
    start, login, rest = _parted(uri)
    user, password = _login(uri)
    if login is not None and _masked_login(start, login) == HIDDEN:
        yield from _parts(user)
    yield from _parts(password)
    if rest is not None:
        yield from (value for _, _, value, secret in _query(rest)[2] if secret)


def _parts(password: str) -> Iterator[str]:
    """The password, and each part of it that a parser may take for something else."""
    yield password
    cuts = [cut.end() for cut in re.finditer(r"[:/?#@]", password)]
    cuts += [cut.start() for cut in re.finditer("%", password)]
    yield from (password[cut:] for cut in cuts if len(password) - cut >= _SHORT)
    yield from (part for part in re.split(r"[:/?#@&=]", password) if len(part) >= _SHORT)


# --------------------------------------------------------------------------------------------------
# Modules whose names are imported when they are first asked for.


def lazily(
    module: str,
    where: Mapping[str, str],
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose names load on first use: each from a
    module of the package, where ``module:other`` says that it is called otherwise there.
    """
    names = sorted(where)

    def __getattr__(name: str) -> Any:
        if name not in where:
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}; it has {', '.join(names)}"
            )
        home, _, called = where[name].partition(":")
        return getattr(import_module(f"mlflow_mleval.{home}"), called or name)

    return __getattr__, lambda: names


# --------------------------------------------------------------------------------------------------
# The version of the package.

__version__ = "0.2.0"
