"""The tags that only programs read, kept in one, so that a run's page shows what a person wants.

What is written goes through `packed` and what is read through `unpacked`: all other code knows each
tag by its name. A run may have such a tag apart: written by hand, by an earlier version, or for
want of room in the one. It counts then, and stays apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mlflow_mleval.naming import MAX_TAG, quoted
from mlflow_mleval.tracking import schema
from mlflow_mleval.tracking.bounds import bounded_json

_PREFIX = "mleval."
#: Those that go into `schema.TAG_RUN`. Not by what somebody may have to choose runs: hierarchy,
#: propensities, among how many.
PACKED = frozenset(
    (
        schema.TAG_ANSWERS,
        schema.TAG_CLAIM,
        schema.TAG_DIGEST,
        schema.TAG_EPOCH,
        schema.TAG_FOLD_SIZES,
        schema.TAG_OWN_RUN,
        schema.TAG_PROFILE,
        schema.TAG_SOFT_PROFILE,
        schema.TAG_SURROGATE,
        schema.TAG_TRIAL,
        schema.TAG_UPDATED,
        schema.TAG_WITHDRAWN,
    )
)


def packed(changes: Mapping[str, str], tags: Mapping[str, str] | None = None) -> dict[str, str]:
    """What to write so that the run has these tags; `tags` are those that it has, as `unpacked`
    gives them.

    >>> packed({"mleval.method": "BR", "mleval.updated": "9"})
    {'mleval.method': 'BR', 'mleval.run': '{"schema":1,"updated":"9"}'}
    >>> packed({"mleval.updated": "9"}, {"mleval.updated": "8"})  # it is apart already
    {'mleval.updated': '9'}
    """
    tags = tags or {}
    before = _inside(tags)
    # The one that stands apart may have to say what both said.
    changes = {
        key: tags[key] for key in (schema.TAG_WITHDRAWN,) if key in tags and key not in before
    } | dict(changes)
    apart = {
        key: value
        for key, value in changes.items()
        if key not in PACKED or (key in tags and key not in before)
    }
    inside = {
        key: value for key, value in (before | dict(changes)).items() if value and key not in apart
    }
    while len(text := _text(inside)) > MAX_TAG:
        longest = max(inside, key=lambda key: len(inside[key]))
        apart[longest] = inside.pop(longest)
    return apart | ({schema.TAG_RUN: text} if inside or schema.TAG_RUN in tags else {})


def unpacked(tags: Mapping[str, str]) -> dict[str, str]:
    """All tags of a run by their names; of `schema.TAG_RUN` is left what does not stand apart.

    Measures are withdrawn if either place says so. Where `schema.TAG_RUN` cannot be read, it stays
    as it is.

    >>> unpacked({"mleval.run": '{"schema":1,"updated":"9","digest":"ab"}', "mleval.updated": "8"})
    {'mleval.run': '{"schema":1,"digest":"ab"}', 'mleval.updated': '8', 'mleval.digest': 'ab'}
    """
    if not (found := _inside(tags)):
        return dict(tags)
    inside = {key: value for key, value in found.items() if tags.get(key, value) == value}
    both = {schema.TAG_WITHDRAWN} & found.keys() - inside.keys()
    either = {
        key: json.dumps(sorted(schema.withdrawn(found) | schema.withdrawn(tags))) for key in both
    }
    if len(inside) < len(found):
        tags = {**tags, schema.TAG_RUN: _text(inside)}
    return {**tags, **inside, **either}


def decode(text: str) -> dict[str, str]:
    """The tags that the text of `schema.TAG_RUN` holds.

    Raises
    ------
    ValueError
        Not what `packed` writes.

    >>> decode('{"schema":1,"updated":"9"}')
    {'mleval.updated': '9'}
    """
    content = bounded_json(text)
    if not isinstance(content, dict) or type(version := content.pop("schema", None)) is not int:
        raise ValueError("the tag is not in the form this package writes")
    if version > schema.SCHEMA_VERSION:
        raise ValueError(f"it has schema {version}, newer than {schema.SCHEMA_VERSION}")
    if wrong := [value for value in content.values() if not isinstance(value, str)]:
        raise ValueError(
            f"the tag is not in the form this package writes ({quoted(wrong[0])} is no text)."
        )
    return {_PREFIX + key: value for key, value in content.items() if _PREFIX + key in PACKED}


def having(tag: str, value: str = "") -> tuple[str, str]:
    """Two filters in MLflow's search syntax: of runs with the tag apart, and in the one; a value
    may be digits and letters.

    >>> having("mleval.digest", "ab")
    ("tags.`mleval.digest` LIKE 'ab%'", 'tags.`mleval.run` LIKE \\'%"digest":"ab%\\'')
    """
    inside = f'"{tag.removeprefix(_PREFIX)}":"{value}'
    return f"tags.`{tag}` LIKE '{value}%'", f"tags.`{schema.TAG_RUN}` LIKE '%{inside}%'"


def _inside(tags: Mapping[str, str]) -> dict[str, str]:
    try:
        return decode(tags[schema.TAG_RUN]) if schema.TAG_RUN in tags else {}
    except (ValueError, RecursionError):
        return {}


def _text(inside: Mapping[str, str]) -> str:
    content = {key.removeprefix(_PREFIX): value for key, value in inside.items()}
    return json.dumps({"schema": schema.SCHEMA_VERSION, **content}, separators=(",", ":"))
