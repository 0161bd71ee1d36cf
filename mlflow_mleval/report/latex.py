"""The report, or what is about pairs, as LaTeX to include in a paper: verdict, doubts, complete table environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from mlflow_mleval.analysis.comparison import FUSED, Comparison
from mlflow_mleval.analysis.profile_comparison import ProfileComparison
from mlflow_mleval.report import profiles_text
from mlflow_mleval.report.certainty_text import certainty_sentences
from mlflow_mleval.report.escape import latex, shorten
from mlflow_mleval.report.folds_text import Folds, means_table, sentences
from mlflow_mleval.report.folds_text import pairs_table as fold_pairs_table
from mlflow_mleval.report.pairs_text import omnibus, pairs_verdict
from mlflow_mleval.report.tables import ReaderTable, pairs_table, ranking_table
from mlflow_mleval.report.words import choices, count, listed, new_doubts, origin, paragraphs

#: What fits on a page; the rest is in the CSV files.
METHODS, PAIRS, DATASETS = 40, 30, 12
#: Longer names are cut in the middle.
NAME = 60
#: A table that is too wide for the page is made smaller; no other one is changed.
SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
HEAD = r"""% To be included by \input. In the preamble:
%   \usepackage[T1]{fontenc}
%   \usepackage{booktabs}
%   \usepackage{graphicx}
% Names in scripts other than Latin need LuaLaTeX or XeLaTeX and a font that has them."""


def render_latex(comparison: Comparison, provenance: Mapping[str, Any] | None = None, what: str = "report") -> str:
    r"""The report as LaTeX; names of strangers are text, not commands.

    The tables have the labels ``tab:mleval-ranking`` and ``tab:mleval-pairs``; those over folds see `folds_latex`.

    Parameters
    ----------
    comparison : Comparison
    provenance : mapping, optional
        What reproduces it; told in a paragraph at the end.
    what : {"report", "ranking", "pairs"}
        "pairs": only which methods differ.
    """
    c, study, only = comparison, comparison.study, what == "pairs"
    parts = [HEAD, *map(latex, [s.text for s in pairs_verdict(c)] if only else paragraphs(c))]
    if said := new_doubts(c):
        parts.append(items("Doubts", said))
    by = f"all measures fused ({choices(c.options, len(study.measures))})" if c.on == FUSED else listed([c.on])
    where = f"over {count(len(study.datasets), 'dataset')}" if len(study.datasets) > 1 else f"on {listed(study.datasets)}"
    caption = f"Ranking of {count(len(study.methods), 'method')} {where} by {by}."
    if not only:
        parts.append(table_environment(ranking_table(c, METHODS), caption, "ranking"))
    pairs = pairs_table(c, PAIRS)
    pairs = ReaderTable([column for column in pairs.columns if column.keep != 1], pairs.total)
    if pairs.total:
        tests = [*omnibus(c), *([c.decision] if only else [])]
        parts.append(table_environment(pairs, f"Pairs of methods. {' '.join(tests)}", "pairs"))
    if what == "report":
        parts += folds_latex(dict(islice(c.folds.items(), DATASETS)))
        parts += [] if c.profiles is None else profiles_latex(c.profiles)
    if only and c.beyond is not None:
        parts.append(items("Beyond p-values", [*certainty_sentences(c), *c.beyond.warnings]))
    if provenance:
        parts.append(made_from(provenance))
    return "\n\n".join(parts) + "\n"


def items(title: str, texts: Sequence[str]) -> str:
    """Points under a title."""
    points = [rf"  \item {latex(text)}" for text in texts]
    return "\n".join([rf"\paragraph{{{latex(title)}}}", r"\begin{itemize}", *points, r"\end{itemize}"])


def made_from(provenance: Mapping[str, Any]) -> str:
    """What reproduces it, in small type."""
    return rf"{{\footnotesize\raggedright {latex(origin(provenance))}\par}}"


def folds_latex(folds: Folds) -> list[str]:
    r"""What the folds of each dataset say, and its means and pairs as tables.

    Their labels are ``tab:mleval-fold-means-1``, ``tab:mleval-fold-pairs-1`` and so on.
    """
    parts = []
    for i, (dataset, found) in enumerate(folds.items(), start=1):
        where = f"over {count(found.n_folds, 'fold')} of {listed([dataset])}"
        parts += [rf"\paragraph{{{latex(f'By fold: {listed([dataset])}')}}}", *map(latex, sentences(found))]
        parts.append(table_environment(means_table(found, METHODS), f"Means {where}.", f"fold-means-{i}"))
        parts.append(table_environment(fold_pairs_table(found, PAIRS), f"Pairs of methods {where}.", f"fold-pairs-{i}"))
        if said := found.doubts:
            parts.append(items(f"Doubts about {listed([dataset])}", said))
    return parts


def profiles_latex(found: ProfileComparison) -> list[str]:
    r"""What loss profiles say, and as tables with the labels ``tab:mleval-profiles`` and ``tab:mleval-awareness``."""
    parts = [r"\paragraph{Loss profiles}", *map(latex, profiles_text.sentences(found))]
    tables = {
        "profiles": (profiles_text.main_table(found, PAIRS), "Who is ahead where along the loss profiles."),
        "awareness": (profiles_text.awareness_table(found, METHODS), "How aware of the dependence of labels each method is."),
    }
    parts += [table_environment(table, caption, key) for key, (table, caption) in tables.items() if table.total]
    said = [*found.warnings, *profiles_text.left_out(found)]
    return [*parts, items("Notes on the profiles", said)] if said else parts


def table_environment(table: ReaderTable, caption: str, key: str) -> str:
    """The table with its caption, label and notes."""
    shown = f" The first {len(table.columns[0].cells)} of {table.total:,} are shown." if table.left_out else ""
    notes = " ".join(c.note for c in table.columns if c.note)
    lines = [
        r"\begin{table}",
        r"\centering\small\setlength{\tabcolsep}{4pt}",
        rf"\caption{{{latex(f'{caption}{shown} {notes}')}}}",
        rf"\label{{tab:mleval-{key}}}",
        SHRINK,
        rf"\begin{{tabular}}{{{''.join('r' if c.align == '>' else 'l' for c in table.columns)}}}",
        r"\toprule",
        " & ".join(latex(c.head) for c in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(latex(shorten(cell, NAME)) for cell in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
    ]
    return "\n".join(lines)
