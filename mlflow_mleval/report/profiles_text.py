"""Loss profiles in words, tables and plain data, as all formats show them.

Files (unrounded; the columns and their order are stable):

=========================  =============================================================================================
profile_curves.csv         dataset, method, parameter, position, loss, low, high
profile_ratios.csv         dataset, method_a, method_b, parameter, position, ratio, low, high, pvalue, significant
profile_crossings.csv      dataset, method_a, method_b, parameter, position, below, above, certain
profile_claims.csv         dataset, better, worse, first, last, n_labels
profile_awareness.csv      dataset, method, hamming, subset, area, slope, relative_gain
profile_across.csv         method_a, method_b, position, ratio, wins, losses, pvalue, significant
=========================  =============================================================================================

The parameter is k (binomial family) or α (polynomial); the position goes from 0, the Hamming loss, to 1, the subset 0/1
loss. A ratio is the loss of method_b over that of method_a: above 1 method_a is better. profile_across.csv is over the datasets,
and there only if these are enough to separate any pair.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.profile_comparison import WHERE, ProfileComparison
from mlflow_mleval.report.escape import aligned, fixed, number
from mlflow_mleval.report.figures.profile_lines import SUMMARIES
from mlflow_mleval.report.tables import Column, ReaderTable
from mlflow_mleval.report.words import count, level, listed

#: Pairs of which the sentences tell, and rows of a table for readers.
TOLD = 4
#: Ratios this close to 1 are float noise.
NOISE = 1e-9
#: Parameters of a table.
POINTS = 8
SYMBOLS = {"binomial": "k", "polynomial": "α"}
KINDS = {"hard": "predicted label sets", "soft": "scores"}
#: How the summaries are called.
NAMES = {"area": "area", "slope": "slope", "relative_gain": "relative gain"}


# ---- sentences ---------------------------------------------------------------------------------------------------------


def sentences(found: ProfileComparison, told: int = TOLD) -> list[str]:
    """What the profiles say, a sentence each: crossings of `told` pairs, claims and their error rate, awareness and its tests."""
    if found.ratios.empty:
        return ["No two methods have a profile on the same dataset."]
    return [*_crossings(found, told), *_claims(found), *_across(found, told), *_awareness(found)]


def _crossings(found: ProfileComparison, told: int) -> list[str]:
    datasets = found.datasets
    pairs = found.pair_patterns
    crossed = pairs[pairs["crossed"] > 0]
    if crossed.empty:
        where = "" if len(datasets) == 1 else " on any dataset"
        return [f"No two of the profiles cross{where}: who is ahead by the Hamming loss is ahead throughout."]
    if len(datasets) == 1:
        said = dataset_sentences(found, datasets[0], told)
    else:
        table = found.oriented_patterns.set_index(["method", "against"]).sort_index()
        keys = zip(crossed["method"].head(told), crossed["against"].head(told), strict=True)
        said = [_over_datasets(key, table.loc[[key]], SYMBOLS[_family(found)]) for key in keys]
    if len(crossed) > told:
        said[-1] += f" The order of {count(len(crossed) - told, 'other pair')} changes, too."
    if not found.crossings["certain"].any() and found.ratios["pvalue"].notna().any():
        said.append("These are mean losses: no change of order is certain, for nowhere are the folds sure of both sides.")
    return said


def _over_datasets(pair: tuple[str, str], table: pd.DataFrame, symbol: str) -> str:
    """One pair over several datasets, a row each."""
    a, b = (listed([m]) for m in pair)
    texts = {
        "overtaken": f"{a} is ahead at small {symbol} and {b} at large {symbol}",
        "overtakes": f"{b} is ahead at small {symbol} and {a} at large {symbol}",
        "ahead": f"{a} is ahead throughout",
        "behind": f"{b} is ahead throughout",
        "mixed": f"{a} and {b} change places several times",
        "tied": "they are equal",
    }
    where = {kind: table.loc[table[kind], "dataset"].tolist() for kind in WHERE}
    kinds = [kind for kind in texts if where[kind]]
    places = [_of(where[kinds[0]], len(table)), *(listed(where[kind]) for kind in kinds[1:])]
    said = "; ".join(f"{texts[kind]} on {place}" for kind, place in zip(kinds, places, strict=True))
    return said + (f". Both ends are certain on {listed(where['certain'])}." if where["certain"] else ".")


def _of(where: list[str], total: int) -> str:
    """So many of the datasets, with their names while they are few."""
    if len(where) == total:
        return f"all {total} datasets" if total > 1 else listed(where)
    names = f" ({listed(where)})" if len(where) <= 3 else ""
    return f"{len(where)} of {total} datasets{names}"


def dataset_sentences(found: ProfileComparison, dataset: str, most: int | None = None) -> list[str]:
    """The crossings on one dataset, a sentence a pair, certain ones first: where the order changes, and what is certain.

    Pairs whose lines cross several times are told by their number.
    """
    table = found.patterns
    table = table[(table["dataset"] == dataset) & (table["crossings"] > 0)].sort_values("certain", ascending=False, kind="stable")
    symbol, ends, certain = SYMBOLS[_family(found)], found.ends(dataset), certain_spans(found, dataset)
    said = []
    for row in table.head(most).itertuples():
        a, b, at = listed([row.method]), listed([row.against]), _at(row.parameter, symbol, ends)
        text = f"{b} overtakes {a} above {at}"
        if row.crossings > 1:
            text = f"the profiles of {a} and {b} cross {row.crossings} times, first above {at}"
        sure = [f"of {m} {span}" for m, o in ((row.method, row.against), (row.against, row.method))
                if (span := certain.get((m, o)))]  # fmt: skip
        text += f"; the folds are sure {' and '.join(sure) or 'of neither'}" if found.tested_on(dataset) else ""
        said.append(f"On {listed([dataset])} {text}.")
    return said


def _at(parameter: float, symbol: str, ends: tuple[float, float]) -> str:
    """Where profiles cross: the last whole k before, or α.

    >>> _at(9.4, "k", (1, 14)), _at(31.6228, "α", (1, 1000))
    ('k = 9 of 14', 'α = 31.6')
    """
    return f"k = {math.floor(parameter + NOISE)} of {ends[1]:g}" if symbol == "k" else f"α = {number(parameter, 3)}"


def certain_spans(found: ProfileComparison, dataset: str) -> dict[tuple[str, str], str]:
    """Where on a dataset one method is certainly better: by (better, worse), "up to k = 4" or "from k = 12"."""
    symbol, ends = SYMBOLS[_family(found)], found.ends(dataset)
    stretches = found.certain_stretches(dataset)
    return {pair: listed(_span(*ends_of, symbol, ends) for ends_of in parts) for pair, parts in stretches.items()}


def _span(first: float, last: float, symbol: str, ends: tuple[float, float]) -> str:
    """A stretch of parameters in words.

    >>> [_span(a, b, "k", (1, 14)) for a, b in ((1, 14), (1, 4), (12, 14), (5, 8), (3, 3))]
    ['for every k', 'up to k = 4', 'from k = 12', 'for k = 5 to 8', 'at k = 3']
    """
    if first == last:
        return f"at {symbol} = {number(first, 3)}"
    if (first, last) == ends:
        return f"for every {symbol}"
    if first == ends[0]:
        return f"up to {symbol} = {number(last, 3)}"
    if last == ends[1]:
        return f"from {symbol} = {number(first, 3)}"
    return f"for {symbol} = {number(first, 3)} to {number(last, 3)}"


def _claims(found: ProfileComparison) -> list[str]:
    c, alpha = found.claims, level(found.options["alpha"])
    tested = found.ratios["pvalue"].notna()
    if not tested.any():
        return ["Without tests by fold nothing says which differences on a dataset are more than chance."]
    pairs = len(found.ratios.index.droplevel("parameter")[tested].unique())
    apart = c.assign(pair=[frozenset(p) for p in zip(c["better"], c["worse"], strict=True)])
    some = len(apart.drop_duplicates(["dataset", "pair"]))
    if not some:
        return [f"The folds separate none of {count(pairs, 'pair')} anywhere along the profile (α = {alpha})."]
    several = len(found.datasets) > 1
    by, over = (" by dataset", "parameters, pairs and datasets") if several else ("", "parameters and pairs")
    return [
        f"Somewhere along the profile the folds separate {some:,} of {count(pairs, 'pair')}{by}; the chance that any of these "
        f"claims is wrong, over all {over}, is at most {alpha}."
    ]


def _across(found: ProfileComparison, told: int) -> list[str]:
    """What holds over the datasets: pairs with a stretch of positions at which one is better."""
    table = found.across
    if table is None:
        return []
    said = []
    for (a, b), part in table.groupby(level=["method_a", "method_b"], sort=False):
        sign = np.where(part["significant"], np.sign(part["wins"] - part["losses"]), 0)
        at = part.index.get_level_values("position").to_numpy(float)
        for run in np.split(np.arange(len(at)), np.flatnonzero(np.diff(sign)) + 1):
            if way := sign[run[0]]:
                better, worse = (a, b) if way > 0 else (b, a)
                said.append(f"{listed([better])} is better than {listed([worse])} at {_positions(at[run[0]], at[run[-1]])}")
    if not said:
        return ["Over the datasets no pair is separated at any position between the Hamming and the subset 0/1 loss."]
    more = f"; and {len(said) - told} more" if len(said) > told else ""
    return [
        f"Over the datasets, at positions from 0 (Hamming loss) to 1 (subset 0/1 loss): {'; '.join(said[:told])}{more} (by "
        "changes of sign, corrected for all pairs and positions)."
    ]


def _awareness(found: ProfileComparison) -> list[str]:
    means = found.awareness_means
    if means["slope"].max() - means["slope"].min() < 1e-12 or not found.same_datasets:
        return []
    shared = found.shared_awareness.index.get_level_values("dataset").nunique()
    mean = f" on average of {count(shared, 'dataset')}" if len(found.datasets) > 1 else ""
    (flat, least), (steep, most) = (
        (list(means.index[np.abs(means["slope"] - end) < 1e-12]), fixed(end, 3)) for end in means["slope"].iloc[[0, -1]]
    )
    who = f"{listed(flat)} {'rises' if len(flat) == 1 else 'rise'}"
    text = f"{who} least from the Hamming to the subset 0/1 loss (by {least}{mean}), {listed(steep)} most ({most})"
    gain = means["relative_gain"].dropna()
    if len(gain):
        best = gain.idxmax()
        text += f"; for its level {listed([best])} gathers its errors most (relative gain {fixed(gain.max(), 3)})"
    said = [f"{text}."]
    alike: dict[str, list[str]] = {}
    for summary, test in found.awareness_tests.items():
        if test is not None and (apart := test.significant_pairs):
            told = "; ".join(f"{listed([a])} from {listed([b])}" for a, b in apart[:TOLD])
            told += f" and {count(len(apart) - TOLD, 'more pair')}" if len(apart) > TOLD else ""
            where = f"signed ranks over {count(test.n_datasets, 'dataset')} separate {told}, the better first"
            alike.setdefault(where, []).append(NAMES[summary])
    said += [f"In {listed(names)} {where}." for where, names in alike.items()]
    tested = [NAMES[s] for s, test in found.awareness_tests.items() if test is not None]
    if tested and len(said) == 1:
        n = next(t.n_datasets for t in found.awareness_tests.values() if t is not None)
        said.append(f"Signed ranks over {n} datasets separate no two methods in {listed(tested, last='or')}.")
    return said


def explain(found: ProfileComparison) -> list[tuple[str, str]]:
    """What the words mean and when not to trust them: (word, explanation)."""
    family, alpha = _family(found), level(found.options["alpha"])
    parameter = (
        "k labels have to be right together for a prediction to count: k = 1 is the Hamming loss, k = K the subset 0/1 loss."
        if family == "binomial" else
        "The larger α, the more it counts to have many labels right together: α = 1 is the Hamming loss, and for large α it "
        "comes near the subset 0/1 loss."
    )  # fmt: skip
    rows = [
        (True, SYMBOLS[family], parameter),
        (
            True,
            "ratio",
            "The loss of the second method over that of the first, so that above 1 the first is better. Where the line falls, "
            "the second gains while more labels have to be right together: it is the more aware of their dependence. Trust it "
            "little where both losses are near 0, for then a few instances decide; and a ratio does not say how large the "
            "difference is.",
        ),
        (
            True,
            "crossing",
            "Where the two mean profiles are equal, between the parameters that were computed. Two lines that run close cross by "
            "chance: only where a certain stretch lies on either side does the order change for certain.",
        ),
        (
            bool(found.ratios["significant"].any()),
            "certain, sure",
            f"Tested at every {SYMBOLS[family]} over folds, allowing for training data that they share, and corrected for all "
            f"{SYMBOLS[family]}, pairs and datasets: the chance that any claim is wrong is at most {alpha}. It is about training "
            "on data like these, not about other datasets.",
        ),
        (
            True,
            "slope",
            "Subset 0/1 loss less Hamming loss; 0 is flat. A method that is always wrong is flat, too: read it with the level.",
        ),
        (True, "area", "Mean loss along the profile; it grows with the level and with the slope."),
        (
            True,
            "relative gain",
            "How far the area lies below the largest that the same Hamming loss allows: 1 where all errors fall on the same "
            "instances, 0 where they spread as evenly as they can.",
        ),
    ]
    return [(word, text) for used, word, text in rows if used]


# ---- tables ------------------------------------------------------------------------------------------------------------


def pairs_table(found: ProfileComparison, top: int | None = None) -> ReaderTable:
    """One row a pair over the datasets."""
    frame = found.pair_patterns
    shown = frame.head(top)
    symbol = SYMBOLS[_family(found)]
    counts = {name: shown[name].astype(str).tolist() for name in WHERE}
    spans = [_positions(a, b) for a, b in zip(shown["low"], shown["high"], strict=True)]
    columns = [
        Column("method", shown["method"].tolist(), "<", name=True),
        Column("against", shown["against"].tolist(), "<", name=True),
        Column("ahead", counts["ahead"], keep=3, note="Numbers of datasets. Ahead, behind: throughout."),
        Column("overtaken", counts["overtaken"], note=f"Overtaken, overtakes: at large {symbol}."),
        Column("overtakes", counts["overtakes"]),
        Column("behind", counts["behind"], keep=3),
        Column("crossing at", spans, keep=1, note="Crossing at: 0 is the Hamming, 1 the subset 0/1 loss."),
    ]
    if any(found.tested_on(dataset) for dataset in found.datasets):
        columns.append(Column("certain", counts["certain"], keep=4, note="Certain: on both sides."))
    if shown["mixed"].any():
        columns.insert(6, Column("both", counts["mixed"], keep=2, note="Both: several crossings."))
    return ReaderTable(columns, len(frame))


def _positions(low: float, high: float) -> str:
    if low != low:
        return ""
    a, b = fixed(low, 2), fixed(high, 2)
    return a if a == b else f"{a}–{b}"


def dataset_table(found: ProfileComparison, dataset: str, top: int | None = None) -> ReaderTable:
    """One row a pair on one dataset: who is ahead at small parameters, where the other overtakes, what is certain."""
    table = found.patterns
    table = table[table["dataset"] == dataset]
    keys = pd.DataFrame({"a": ~table["certain"], "b": table["crossings"] == 0})
    table = table.loc[keys.sort_values(["a", "b"], kind="stable").index]
    shown = table.head(top)
    symbol, ends = SYMBOLS[_family(found)], found.ends(dataset)
    where = [
        "equal" if row.tied else "never" if not row.crossings else _at(row.parameter, symbol, ends)
        + (f" and {row.crossings - 1} more" if row.crossings > 1 else "")
        for row in shown.itertuples()
    ]  # fmt: skip
    certain = certain_spans(found, dataset)
    sure = [[certain.get(pair, "") for pair in zip(shown[i], shown[j], strict=True)]
            for i, j in (("method", "against"), ("against", "method"))]  # fmt: skip
    columns = [
        Column(f"ahead at small {symbol}", shown["method"].tolist(), "<", name=True),
        Column("against", shown["against"].tolist(), "<", name=True),
        Column("overtaken above", where, "<", note="Overtaken above: where the mean profiles cross."),
        Column("certainly better", sure[0], "<", keep=2),
        Column("certainly worse", sure[1], "<", keep=2, note=f"Certainly: corrected for all {symbol} and all pairs."),
    ]
    return ReaderTable(columns if found.tested_on(dataset) else columns[:3], len(table))


def main_table(found: ProfileComparison, top: int | None = None) -> ReaderTable:
    """The pairs: over the datasets, or on the only one."""
    datasets = found.datasets
    return pairs_table(found, top) if len(datasets) > 1 else dataset_table(found, datasets[0], top)


def curves_table(found: ProfileComparison, dataset: str, top: int | None = None) -> ReaderTable:
    """One row a method on one dataset: its loss at a few parameters, the ends among them."""
    methods = found.methods_on(dataset)
    losses = found.curves.xs(dataset, level="dataset")["loss"].unstack("parameter").loc[methods[:top]]
    at = np.unique(np.linspace(0, losses.shape[1] - 1, min(losses.shape[1], POINTS)).round().astype(int))
    symbol = SYMBOLS[_family(found)]
    columns = [Column("method", losses.index.tolist(), "<", name=True)]
    columns += [Column(f"{symbol} = {number(losses.columns[i], 3)}", aligned(losses.iloc[:, i], 3)) for i in at]
    return ReaderTable(columns, len(methods))


def awareness_table(found: ProfileComparison, top: int | None = None) -> ReaderTable:
    """One row a method, the flattest first: means over datasets of its summaries, with letters where they were tested."""
    means = found.awareness_means
    shown = means.head(top)
    marks = found.awareness_letters
    heads = {"hamming": "Hamming ↓", "subset": "subset 0/1 ↓", **{s: f"{NAMES[s]} {arrow}" for s, arrow in SUMMARIES.items()}}
    columns = [Column("method", list(shown.index), "<", name=True)]
    for name, head in heads.items():
        cells = aligned(shown[name], 3)
        if name in marks:
            cells = [f"{cell} {marks[name].get(m, '')}".rstrip() for cell, m in zip(cells, shown.index, strict=True)]
        columns.append(Column(head, cells, "<" if name in marks else ">", keep=2 if name in SUMMARIES else 1))
    shared, every = found.shared_awareness.index.get_level_values("dataset").nunique(), len(found.datasets)
    if not found.same_datasets:
        notes = ["Each mean is over the datasets of its method; no dataset is shared by all: the means cannot be compared."]
    else:
        notes = [] if shared == every else [f"Means over {shared} of {every} datasets that all methods share."]
    if lacking := [m for m in found.awareness.index.unique("method") if m not in means.index]:
        notes.append(f"Without {listed(lacking)}: not on every dataset.")
    if found.options["kind"] == "soft":
        notes.append("Losses of scores, not of the label sets that follow from them.")
    if marks:
        notes.append("Methods that share a letter are not separated.")
    columns[0] = Column("method", list(shown.index), "<", name=True, note=" ".join(notes))
    return ReaderTable(columns, len(means))


# ---- plain data --------------------------------------------------------------------------------------------------------


def left_out(found: ProfileComparison, brief: bool = False) -> list[str]:
    """What there is not, with the reason, what shares one together; `brief` leaves out the figures of a reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for key, reason in found.absent.items():
        part, _, rest = key.partition(".")
        if part in ("across", "awareness_tests") and len(found.datasets) == 1:
            continue
        head, what = {
            "across": ("Not tested over the datasets", "the order along the profiles"),
            "awareness_tests": ("Not tested over the datasets", NAMES.get(rest, rest)),
            "tests": ("Not tested over folds", rest),
        }.get(part, ("Left out", key))
        reasons.setdefault((head, reason.partition(":")[0] if brief else reason.rstrip(".")), []).append(what)
    return [f"{head}: {listed(what, most=8)} ({reason})." for (head, reason), what in reasons.items()]


def profiles_dict(found: ProfileComparison | None) -> dict[str, Any] | None:
    """The comparison of profiles as plain data; tables as lists of rows."""
    if found is None:
        return None
    tests = {s: None if test is None else {"pairs": test.table, "n_datasets": test.n_datasets, "correction": test.correction}
             for s, test in found.awareness_tests.items()}  # fmt: skip
    return {
        "sentences": sentences(found),
        "across": None,
        **{name.removeprefix("profile_"): frame for name, frame in found.frames.items()},
        "awareness_tests": tests,
        "n_labels": found.n_labels,
        "absent": found.absent,
        "warnings": found.warnings,
        "options": found.options,
    }


# ---- small things ------------------------------------------------------------------------------------------------------


def _family(found: ProfileComparison) -> str:
    return found.options["family"]
