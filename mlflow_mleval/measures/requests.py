"""Which measures were asked for beside the usual ones."""

from __future__ import annotations

from collections.abc import Iterable

from mlflow_mleval.measures.hierarchical import FAMILIES
from mlflow_mleval.measures.registry import MEASURES, known_measures


def requested(
    measures: Iterable[str] | str | None, kind: str, has_hierarchy: bool
) -> tuple[tuple[str, ...], list[str]]:
    """The measures to compute beside those that are usual for the kind, and the families of
    hierarchical ones to keep to.

    A ValueError or TypeError names what is no measure, set or family, or is a family without a
    hierarchy.
    """
    names = [] if measures is None else [measures] if isinstance(measures, str) else list(measures)
    if not names and measures is not None:
        raise ValueError(
            "`measures` must name at least one measure or set, got none. Omit it for the usual "
            "ones."
        )
    families = [name for name in names if name in FAMILIES]
    if families and not has_hierarchy:
        raise TypeError(
            f"`hierarchy` must be given with {families[0]!r} in `measures`. Leave it out without "
            "one."
        )
    rest = [name for name in known_measures(names, further=FAMILIES) if name not in families]
    return tuple(name for name in rest if kind in MEASURES[name].asked), families
