"""For the generator: the doctests that end a docstring become its section of examples."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

HEADING = "Examples\n--------\n"
FIRST = re.compile(r"^>>> ", re.M)


def with_heading(text: str) -> str:
    """A docstring whose first doctest stands under a heading, as readers of sections need it."""
    first = FIRST.search(text)
    if not first or "Examples\n---" in text[: first.start()]:
        return text
    return f"{text[: first.start()].rstrip()}\n\n{HEADING}{text[first.start() :]}"


class DocstringExamples(Extension):
    """Puts the heading where a docstring is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = with_heading(obj.docstring.value)
