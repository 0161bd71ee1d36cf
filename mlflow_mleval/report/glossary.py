"""What stands in ``glossary.md``: the words of the reports, the keys of their JSON data and the
columns of their CSV files.
"""

import re
from importlib.resources import files

_TEXT = (files("mlflow_mleval.report") / "glossary.md").read_text("utf-8")
#: (topic, word, explanation), each a heading and the paragraph under it.
_ENTRIES = re.findall(r"^## (.+?): (.+)\n\n((?:[^#\n].*\n)+)", _TEXT, re.M)


def glossary(topic: str) -> dict[str, str]:
    """The words of a topic and what they mean; what stands in braces there is for the caller to
    fill in.

    >>> glossary("ties")["correct"]
    'corrected for ties'
    """
    return {word: " ".join(text.split()) for of, word, text in _ENTRIES if of == topic}
