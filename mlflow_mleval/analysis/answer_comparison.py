"""Answers of several methods to the same questions side by side, and what they say beside tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain
from statistics import NormalDist
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd

from mlflow_mleval.analysis.pairs import PAIR, one_table, possible_ranks
from mlflow_mleval.analysis.pairs_by_unit import InstanceTests, instance_tests
from mlflow_mleval.analysis.promethee import promethee
from mlflow_mleval.errors import (
    IncomparableRunsError,
    LostAnswersError,
    MissingResultsError,
    UndirectedError,
)
from mlflow_mleval.measures.metric_names import directions, is_cost, proposed_direction, range_of
from mlflow_mleval.measures.registry import MEASURES, Direction
from mlflow_mleval.sentences import PROPOSED, Argument, Message, count, grouped, quoted, some
from mlflow_mleval.study import Units
from mlflow_mleval.validation import Stated, by_name

# --------------------------------------------------------------------------------------------------
# Answers of several methods, put side by side question by question, never by place alone.

#: The share of questions that may be absent somewhere with no more than a doubt.
MOST_LOST = 0.05
#: By measure the words of its values, from worst to best.
Grades: TypeAlias = Mapping[str, Sequence[str]]
#: Between which values measures lie.
Ranges: TypeAlias = dict[str, tuple[float, float]]
#: What a scorer says of an answer that passes, and of one that does not.
PASS = dict.fromkeys((True, "yes", "true", "pass"), 1.0) | dict.fromkeys(
    (False, "no", "false", "fail"), 0.0
)


@dataclass(frozen=True)
class Answers:
    """What one method was given for its answers, one row an answer: values, and what is told beside
    them (`link`, `asked`), by the key of the question. One that recurs is another answer to it."""

    values: pd.DataFrame
    about: pd.DataFrame
    digest: str = ""
    counted: int | None = None
    scorers: Mapping[str, str] = field(default_factory=dict)
    passing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        """How many answers were counted that are not here."""
        return max((self.counted or 0) - len(self.values), 0)


def aligned(
    answers: Mapping[str, Answers], *, shared: bool = False, asked_of: str | None = None
) -> Units:
    """The answers of all methods to the questions that all answered, or that one did (`asked_of`,
    in its order). That more than `MOST_LOST` is missing somewhere is an error unless `shared`."""
    if len(answers) < 2:
        raise MissingResultsError(
            f"only {count(len(answers), 'method')} has values by instance; a comparison needs two."
        )
    every = [*answers.values()]
    measures = [m for m in every[0].values if all(m in a.values for a in every)]
    common, notes = _common(answers, shared, asked_of)
    if not measures:
        had = "; ".join(f"{method}: {some(a.values, 5)}" for method, a in answers.items())
        raise IncomparableRunsError(f"the methods have no measure by instance in common ({had}).")
    alike = {}
    for method, a in answers.items():
        rows = a.values.index.isin(common)
        alike[method] = replace(a, values=a.values.loc[rows, measures], about=a.about.loc[rows])
    notes = [*chain.from_iterable(a.notes for a in every), *notes, *_differing(answers, measures)]
    notes += _repeated_or_empty(alike, asked_of)
    return Units(
        "answers",
        {m: a.values.groupby(level=0).mean().reindex(common) for m, a in alike.items()},
        measures,
        column=partial(_column_of_answers, alike, common),
        answers=alike,
        passing=[m for m in measures if all(m in a.passing for a in every)],
        notes=tuple(dict.fromkeys(notes)),
    )


def _repeated_or_empty(answers: Mapping[str, Answers], asked_of: str | None) -> Iterator[str]:
    """What to tell of answers without a value, and of questions that have several answers."""
    lacking = [
        f"{measure} of {method}: {gaps:,} of {len(a.values):,}"
        for method, a in answers.items()
        if asked_of in (None, method)
        for measure, gaps in a.values.isna().sum().items()
        if gaps
    ]
    if lacking:
        yield f"Without a value, for its scorer failed or gave none: {some(lacking)}."
    if any(a.values.index.has_duplicates for a in answers.values()):
        numbers = some(f"{method}: {len(a.values):,} answers" for method, a in answers.items())
        yield (
            f"Some questions were answered more than once ({numbers}); a question counts once, "
            "with its mean."
        )


def _common(
    answers: Mapping[str, Answers], shared: bool, asked_of: str | None
) -> tuple[pd.Index, list[str]]:
    """The questions that all methods answered, or one of them; and notes on answers that lack."""
    there = pd.DataFrame({m: a.values.groupby(level=0).size() for m, a in answers.items()}).notna()
    common = there.index[there.all(axis=1)].sort_values()
    if not len(common):
        raise IncomparableRunsError(
            f"{some(answers)} share none of their {len(there):,} instances. Choose runs on the "
            "same data, or say what identifies an instance (`instance_by`)."
        )
    notes = []
    gaps = [f"{m}: {a.lost:,} of {a.counted:,} answers" for m, a in answers.items() if a.lost]
    if gaps:
        notes.append(f"The store has lost answers of {some(gaps)}; no verdict is about them.")
    if (asked := answers.get(asked_of or "")) is not None:
        common = asked.values.index.unique()
        _check_means({m: a for m, a in answers.items() if m != asked_of}, common)
        return common, notes
    if len(common) < len(there):
        gone = [f"{m}: {n:,} of {len(there):,}" for m, n in (~there).sum().items() if n]
        notes.append(
            f"{len(common):,} of {len(there):,} instances are known for all methods, and no others "
            f"are compared; missing in {some(gone)}."
        )
    losses = (a.lost / (a.lost + len(a.values)) for a in answers.values())
    if max(1 - len(common) / len(there), *losses) > MOST_LOST and not shared:
        rest = "What is left may differ from what is lost. Evaluate again, or compare on the shared"
        text = " ".join([*notes, rest, "instances ("])
        raise MissingResultsError(Message(text, Argument("shared", True), ")."))
    return common, notes


def _check_means(answers: Mapping[str, Answers], asked: pd.Index) -> None:
    """Refuse means of repeated answers of which the store has lost some: nobody sees which."""
    for method, a in answers.items():
        hidden = a.lost - len(asked.difference(a.values.index))
        if a.values.index.has_duplicates and hidden > 0:
            raise LostAnswersError(
                f"the store has lost {hidden:,} of {a.counted:,} answers of {method} to questions "
                "that it answered more than once: what is left of them may be the best of them. "
                f"Evaluate {method} again."
            )


def _differing(answers: Mapping[str, Answers], measures: Sequence[str]) -> Iterator[str]:
    """What to tell where methods answered other data, or were scored in other ways."""
    digests = grouped((a.digest, method) for method, a in answers.items() if a.digest)
    if len(digests) > 1:
        by_digest = "; ".join(f"{digest}: {some(of, 5)}" for digest, of in digests.items())
        yield (
            f"Other data: the digests differ ({by_digest}); the questions compared are the same, "
            "what was expected may not be."
        )
    versions = grouped(pair for a in answers.values() for pair in a.scorers.items() if pair[1])
    if changed := [measure for measure, given in versions.items() if len({*given}) > 1]:
        yield (
            f"The methods were scored by other versions of the scorer on {some(changed)}: a "
            "difference may be the scorer's."
        )
    if apart := sorted({m for a in answers.values() for m in a.values} - {*measures}):
        yield f"Not known for all methods and left out: {some(apart)}."


def unclear(measure: str, words: Sequence[object]) -> str:
    """What to tell of a measure whose values are words that nobody ordered."""
    return (
        f"{measure} is left out, for {some(map(quoted, words), 5)} are no numbers: declare its "
        f"grades from worst to best, as in {measure}={','.join(map(str, words[:3]))}."
    )


def graded(answers: Answers, grades: Grades) -> Answers:
    """The answers with numbers for words whose grades are declared; a note names the others."""
    values = answers.values.copy()
    notes = [*answers.notes]
    ordered = [m for m in dict.fromkeys([*grades, *answers.words]) if m in answers.about]
    for measure in ordered:
        cells = answers.about[measure].fillna("").astype(str)
        place = {word: float(i) for i, word in enumerate(grades.get(measure, ()))}
        if strange := [word for word in cells.unique() if word.strip() and word not in place]:
            notes.append(unclear(measure, strange))
            values = values.drop(columns=measure, errors="ignore")
        else:
            values[measure] = cells.map(place)
    passing = tuple(m for m in answers.passing if m not in ordered)
    return replace(answers, values=values, notes=tuple(notes), passing=passing, words=())


# --------------------------------------------------------------------------------------------------
# What answers say beside the tests: ranking, agreement, sampling, and what more would give.
#
# Miller (2024), "Adding error bars to evals", for questions and samples as two sources of variance.

#: Instances that a table of differences shows.
MOST = 20
#: Scorers that agree more than this say the same.
REDUNDANT = 0.9
POWER = 0.8


@dataclass(frozen=True, kw_only=True)
class AnswerComparison(InstanceTests):
    """What answers to the same questions say. To the tests a question counts once however often it
    was answered; `differing` shows where the first two of the ranking differ most."""

    unit: ClassVar[str] = "answers"
    about = "this is about these methods as they answered here, on questions like these"

    flows: pd.DataFrame | None
    directions: Mapping[str, str] = field(repr=False)
    differing: pd.DataFrame
    compared: tuple[str, str]
    agreement: pd.DataFrame
    sampling: pd.DataFrame
    needed: pd.DataFrame
    cluster: str | None

    @property
    def ranking(self) -> pd.DataFrame | None:
        """`flows`, with low and high: the ranks that the separated pairs leave."""
        if self.flows is None:
            return None
        return self.flows.join(possible_ranks(list(self.flows.index), self.separated))

    @property
    def further(self) -> dict[str, pd.DataFrame]:
        return {
            "differing": self.differing.reset_index(names="instance"),
            "agreement": self.agreement,
            "sampling": self.sampling,
            "needed": self.needed,
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """All doubts: about the answers, and about the tests."""
        redundant = [
            f"{row.measure_a} and {row.measure_b} say the same (correlation "
            f"{row.correlation:.2f}): count them as one."
            for row in self.agreement[self.agreement["redundant"]].itertuples()
        ]
        return (*self.notes, *redundant)


def compare_answers(
    answered: Units,
    *,
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    ways: str = "declared",
    named: bool = True,
    cluster: str | None = None,
    bounds: Stated = None,
    grades: Grades | None = None,
    difference: Stated = None,
    alpha: float = 0.05,
    n_resamples: int = 9_999,
    seed: int = 0,
) -> AnswerComparison:
    """Compare methods on all that they answered. Measures without a direction are left out, unless
    they were `named`. `bounds` are the largest differences of measures without a range;
    `difference` is the one that matters, by default the one seen."""
    groups = None if cluster is None else answered.column(cluster)
    if cluster in answered.measures:
        measures = [m for m in answered.measures if m != cluster]
        notes = (*answered.notes, f"{cluster} names clusters, and is no measure here.")
        answered = replace(answered, measures=measures, notes=notes)
    answered, better, granted = directed(answered, minimize, maximize, ways=ways, named=named)
    turned = [m for m in answered.measures if better[m] == "min"]
    ranges = {m: range_of(m, answered.values(m).stack().dropna()) for m in answered.measures}
    ranges |= ranges_known(answered, grades or {})
    widths = {m: high - low for m, (low, high) in ranges.items() if np.isfinite(high - low)}
    tests = instance_tests(
        answered.tables,
        answered.measures,
        clusters=groups,
        minimize=turned,
        maximize={*answered.measures} - {*turned},
        bounds=widths | by_name(bounds, (m for m in answered.measures if m not in widths)),
        alpha=alpha,
        n_resamples=n_resamples,
        seed=seed,
    )
    flows = answer_ranking(answered, turned)
    first, second = (list(answered.tables) if flows is None else list(flows.index))[:2]
    kept = {part.name: getattr(tests, part.name) for part in fields(tests)}
    added = {
        "notes": (*answered.notes, *granted, *tests.notes),
        "flows": flows,
        "directions": better,
        "differing": most_different(answered, first, second, better),
        "compared": (first, second),
        "agreement": agreement(answered),
        "sampling": sampling(answered),
        "needed": questions_needed(tests, difference),
        "cluster": cluster,
    }
    return AnswerComparison(**{**kept, **added})


def ranges_known(answered: Units, grades: Grades) -> Ranges:
    """Between which values measures lie that pass or fail, are only 0 and 1, or are graded."""
    ranges = {}
    for m in answered.measures:
        seen = (a.values[m].dropna() for a in answered.answers.values())
        if m in grades:
            ranges[m] = 0.0, float(len(grades[m]) - 1)
        elif m in answered.passing or all(values.isin([0, 1]).all() for values in seen):
            ranges[m] = 0.0, 1.0
    return ranges


def _column_of_answers(answers: Mapping[str, Answers], keys: pd.Index, column: str) -> pd.Series:
    """What a column says of each question, as the answers of all methods agree."""
    tables = [(m, table) for m, a in answers.items() for table in (a.about, a.values)]
    parts = [(method, table[column]) for method, table in tables if column in table]
    if not parts:
        columns = dict.fromkeys(chain.from_iterable(table for _, table in tables))
        own = [name for name in columns if name not in ("link", "asked")]
        raise ValueError(f"no answer tells {column!r}. Name one of {some(own)}.")
    return one_table(parts, column).reindex(keys)


def answer_ranking(answered: Units, turned: Sequence[str]) -> pd.DataFrame | None:
    """By method, best first: rank and phi of PROMETHEE on the means (V-shape, equal weights); None
    where a measure has no value for some method."""
    means = pd.DataFrame({m: t[answered.measures].mean() for m, t in answered.tables.items()}).T
    if means.isna().any(axis=None):
        return None
    flows = promethee(means, minimize=turned, weights="equal").flows[["rank", "phi"]]
    return flows.rename_axis("method").sort_values("rank", kind="stable")


#: What to do about a measure without a direction, after its name.
DECLARED = (
    *(". Declare it: ", Argument("minimize"), " or ", Argument("maximize")),
    *(", or take what is proposed: ", PROPOSED, "."),
)


def directed(
    answered: Units,
    minimize: Iterable[str] = (),
    maximize: Iterable[str] = (),
    *,
    ways: str = "declared",
    named: bool = False,
) -> tuple[Units, dict[str, Direction], list[Message]]:
    """The measures whose better way is known (declared, of the registry or by themselves; proposed
    where `ways` says so), that way, and notes; `named` ones must have one, others are left out."""
    declared = {*minimize, *maximize, *MEASURES}
    own, proposed = _by_themselves(answered, [m for m in answered.measures if m not in declared])
    notes, granted, taken = list[str](), list[Message](), own
    if ways == "proposed" and proposed:
        taken = own | proposed
        notes.append(f"Directions taken as proposed: {_sides(proposed)}.")
    if unknown := [m for m in answered.measures if m not in {*declared, *taken}]:
        if named or len(unknown) == len(answered.measures):
            text = f"no direction is known for {some(unknown)}."
            raise UndirectedError(text, UndirectedError.ways_for(unknown, proposed, named))
        notes.append(Message(f"Left out, for no direction is known: {some(unknown)}", *DECLARED))
    if own:
        text = f"Taken for granted: {_sides(own)}. Declare it ("
        either = Argument("minimize"), ", ", Argument("maximize")
        granted.append(Message(text, *either, ") if that is wrong."))
    measures = [m for m in answered.measures if m not in unknown]
    known = directions([m for m in measures if m not in taken], minimize, maximize)
    better = {m: taken.get(m) or known[m] for m in measures}
    answered = replace(answered, measures=measures, notes=(*answered.notes, *notes))
    return answered, better, granted


def _by_themselves(
    answered: Units, measures: Sequence[str]
) -> tuple[dict[str, Direction], dict[str, Direction]]:
    """Which way is better of what passes or fails or costs; and what is proposed of others."""
    own, proposed = dict[str, Direction](), dict[str, Direction]()
    for measure in measures:
        way = proposed_direction(measure)
        if measure in answered.passing:
            own[measure] = "max"
        elif way == "min" and is_cost(measure):  # params_match costs nothing
            own[measure] = "min"
        elif way or is_scored(answered, measure):
            proposed[measure] = way or "max"
    return own, proposed


def _sides(better: Mapping[str, Direction]) -> str:
    """Which values of measures are better, as a clause."""
    sides = grouped((way, measure) for measure, way in better.items())
    sizes = {"max": "larger", "min": "smaller"}
    parts = (f"{sizes[way]} values of {some(sides[way])}" for way in sizes if way in sides)
    return f"{' and '.join(parts)} are better"


def is_scored(answered: Units, measure: str) -> bool:
    """Whether a measure is what a scorer said of some method's answers."""
    scorer = measure.partition("/")[0]
    return any(scorer in answers.scorers for answers in answered.answers.values())


def most_different(
    answered: Units, method_a: str, method_b: str, better: Mapping[str, str], most: int = MOST
) -> pd.DataFrame:
    """The instances on which two methods differ most over all measures, in standard deviations
    (positive: a is better), with the values, links and outputs of both."""
    names = answered.measures
    sides = {"a": method_a, "b": method_b}
    tables = {side: answered.tables[method][names] for side, method in sides.items()}
    raw = (tables["a"] - tables["b"]) * [-1.0 if better[m] == "min" else 1.0 for m in names]
    size = (raw / raw.std(ddof=0).replace(0.0, np.nan)).mean(axis=1).fillna(0.0)
    size = size[size != 0].sort_values(ascending=False, kind="stable", key=abs)[:most]
    order = size.index.rename("instance")
    told: dict[str, Any] = {}
    for side, method in sides.items():
        about = answered.answers[method].about
        about = about[about.index.isin(order)]
        first = about[~about.index.duplicated()].reindex(order)
        told.setdefault("asked", first["asked"])
        told |= {f"{what}_{side}": first.get(what, "") for what in ("link", "address")}
        # of a question that was answered more than once, all outputs that differ
        outputs = about.get("output", pd.Series("", about.index)).astype(str).groupby(level=0)
        told[f"output_{side}"] = outputs.agg(lambda texts: " / ".join(dict.fromkeys(texts)))
    values = {f"{m}:{side}": tables[side][m] for m in names for side in sides}
    columns = {"asked": told.pop("asked"), "difference": size, **raw, **values, **told}
    return pd.DataFrame(columns, index=order)


def agreement(answered: Units) -> pd.DataFrame:
    """How much pairs of measures agree on the same answers: Pearson's correlation in methods."""
    tables = [table[answered.measures] for table in answered.tables.values()]
    centred = pd.concat([table - table.mean() for table in tables])
    centred = centred.mask(centred.abs() <= 1e-12, 0.0)  # float noise has no correlation
    there = centred.notna().to_numpy(int)
    pairs = np.triu_indices(len(answered.measures), 1)
    measures = pd.Index(answered.measures, dtype=object)
    correlation = centred.corr(min_periods=3).to_numpy()[pairs]
    columns = {
        "measure_a": measures[pairs[0]],
        "measure_b": measures[pairs[1]],
        "n": (there.T @ there)[pairs],
        "correlation": correlation,
        "redundant": np.abs(correlation) > REDUNDANT,
    }
    return pd.DataFrame(columns)


def sampling(answered: Units) -> pd.DataFrame:
    """Where questions were answered more than once: how much of the variance is the question's, how
    much is sampling, and the standard error with twice as many questions or answers to each."""
    parts = []
    for method, answers in answered.answers.items():
        groups = answers.values[answered.measures].groupby(level=0)
        size = groups.count().replace(0, np.nan)  # a question without a value is none
        n = size.count()
        within = (groups.var() * (size - 1)).sum() / (size - 1).sum()
        noise = within * (1 / size).mean()
        between = (groups.mean().var() - noise).clip(lower=0.0)
        columns = {
            "method": method,
            "measure": n.index,
            "questions": n,
            "samples": size.mean(),
            "question_variance": between,
            "sampling_variance": within,
            "question_share": between / (between + within),
            "standard_error": np.sqrt((between + noise) / n),
            "with_questions": np.sqrt((between + noise) / (2 * n)),
            "with_samples": np.sqrt((between + noise / 2) / n),
        }
        parts.append(pd.DataFrame(columns)[(n > 1) & (size.max() > 1)])
    return pd.concat(parts, ignore_index=True)


def questions_needed(tests: InstanceTests, difference: Stated = None) -> pd.DataFrame:
    """How many questions, or clusters, until a difference would be found: power .8 at alpha over
    the number of rows, two-sided, by the normal approximation."""
    wanted = by_name(difference, tests.measures)
    if wrong := {m: d for m, d in wanted.items() if m not in tests.measures or not 0 < d < np.inf}:
        raise ValueError(
            f"`difference` must be of the measures {some(tests.measures)} and greater than 0, got "
            f"{wrong}."
        )
    sums, table = tests.moments, tests.table[[*PAIR, "measure", "n", "difference"]].copy()
    if tests.n_clusters:
        table["n"] = tests.n_clusters
    mean = sums.total / sums.n
    squares = sums.squares - 2 * mean * sums.products + mean**2 * sums.squared_sizes
    variance = pd.Series(np.maximum(squares, 0.0)) / (table["n"] - 1)
    matters = table["measure"].map(wanted).astype(float)
    table["difference"] = matters.fillna(table["difference"])
    table["standard_deviation"] = np.sqrt(variance) / (sums.n / table["n"])
    reach = NormalDist().inv_cdf(1 - tests.alpha / len(table) / 2) + NormalDist().inv_cdf(POWER)
    target = table["difference"].abs()
    needed = np.ceil((reach * table["standard_deviation"] / target) ** 2).mask(target == 0, np.inf)
    return table.assign(needed=needed.clip(lower=2), more=(needed - table["n"]).clip(lower=0))
