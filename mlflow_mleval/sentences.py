"""Sentences: plurals, lists and names in them, and messages that speak of arguments, which each
surface words as its own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

SHOWN = 12  #: how many cells or names an error lists before it only counts
LONG = 80  #: characters of a name that an error shows
#: The longest tag that MLflow stores, and the longest name of a measure: a metric's key less our
#: longest prefix.
MAX_TAG = 8_000
MAX_MEASURE = 238
_SMALL = (
    *("no", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_MEASURE = re.compile(r"[A-Za-z0-9_./-]+")


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


def did_you_mean(wrong: Iterable[object], names: Iterable[object]) -> str:
    """A question to stand behind the sentence that says what is wrong: the names that were probably
    meant, however they are spelled; empty if nothing is near.
    >>> did_you_mean(["ndgc_at_5", "Hamming loss", "latency"], ["ndcg_at_5", "hamming_loss", "f1"])
    " Did you mean 'ndcg_at_5', 'hamming_loss'?"
    """
    plain = {_plain_name(name): str(name) for name in names}
    wrong = list(map(str, wrong))
    near = (get_close_matches(_plain_name(name), plain, n=1, cutoff=0.7) for name in wrong)
    meant = dict.fromkeys(plain[name] for matches in near for name in matches)
    others = [repr(name) for name in meant if name not in wrong]
    return f" Did you mean {some(others)}?" if others else ""


def _plain_name(name: object) -> str:
    return re.sub(r"[\s-]+", "_", str(name).lower())


def count(n: int, noun: str) -> str:
    """A number with its noun.
    >>> count(1, "measure"), count(1200, "method"), count(2, "class"), count(2, "policy")
    ('1 measure', '1,200 methods', '2 classes', '2 policies')
    """
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def in_words(n: int) -> str:
    """A number as it stands in a sentence: up to twelve in letters.
    >>> in_words(2), in_words(12), in_words(1200)
    ('two', 'twelve', '1,200')
    """
    return _SMALL[n] if n < len(_SMALL) else f"{n:,}"


Key = TypeVar("Key")
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """By key what stands beside it, such as names by the reason that they share."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def plural(noun: str) -> str:
    """A noun of several."""
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
    """Why a measure's name cannot be part of a metric key; None where it can."""
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


# --------------------------------------------------------------------------------------------------
# Messages that speak of arguments: the reader of a command line knows these as options, the reader
# of the page as fields.


@dataclass(frozen=True)
class Argument:
    """An argument of Python in a message, and its value: a text, True, or what stands for one.
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
    >>> message, worded(message, lambda argument: f"--{argument.name} {argument.plain}")
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


Wording = Callable[[Argument], str]  #: how a surface says an argument
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
    parts = message.parts if isinstance(message, Message) else [message]
    return "".join(word(part) if isinstance(part, Argument) else str(part) for part in parts)


def argument_of(error: Exception) -> str:
    """The argument that an error is about, by which its text begins; empty where it does not."""
    about = re.match("`([a-z_]+)`", str(error))
    return about[1] if about else ""


def joined(between: str, texts: Iterable[object]) -> Message:
    """Texts one after the other, as ``between.join(texts)``."""
    parts = [part for text in texts for part in (between, text)]
    return Message(*parts[1:])
