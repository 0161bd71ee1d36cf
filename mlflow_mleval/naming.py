"""Names in sentences, and which names a store can keep."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable

#: How many cells or names an error lists before it only counts.
SHOWN = 12
#: Characters of a name that an error shows.
LONG = 80
#: The longest tag that MLflow stores, and the longest name of a measure: a metric's key less our longest prefix.
MAX_TAG, MAX_MEASURE = 8_000, 238
#: Letters that have no shape: fillers of Hangul and the empty pattern of Braille.
_SHAPELESS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
_MEASURE = re.compile(r"[A-Za-z0-9_./-]+")


def some(names: Iterable[object], most: int = SHOWN) -> str:
    """The first few names, long ones cut in the middle, and how many more there are.

    >>> some(range(14))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more'
    """
    names = list(names)
    shown = [n if len(n) <= LONG else f"{n[: LONG // 2]}…{n[-LONG // 2 + 1 :]}" for n in map(str, names[:most])]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown) + more


def quoted(value: object) -> str:
    """A cell or name of a file as an error shows it, a long one cut.

    >>> quoted("f1"), len(quoted("x" * 100))
    ("'f1'", 58)
    """
    text = str(value)
    return repr(text if len(text) <= 60 else f"{text[:40]}…{text[-15:]}")


def count(n: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "measure"), count(1200, "method"), count(2, "class")
    ('1 measure', '1,200 methods', '2 classes')
    """
    return f"{n:,} {noun}{'' if n == 1 else 'es' if noun.endswith('s') else 's'}"


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


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Names that are different text and look the same: composed or not, or with characters that are not to be seen.

    >>> look_alikes(["caf\u00e9", "cafe\u0301", "tea", "te\u200ba"]) == [["caf\u00e9", "cafe\u0301"], ["tea", "te\u200ba"]]
    True
    """
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault(name if name.isascii() and name.isprintable() else _seen(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _seen(name: str) -> str:
    """What is seen of a name."""
    plain = unicodedata.normalize("NFKC", name)
    hidden = ("Cc", "Cf", "Cn", "Co")
    return "".join(
        c for c in plain
        if unicodedata.category(c) not in hidden and c not in _SHAPELESS and not 0xFE00 <= ord(c) <= 0xFE0F
        and not 0xE0100 <= ord(c) <= 0xE01EF
    ).strip()
