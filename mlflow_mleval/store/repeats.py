"""Which runs compare: those of one method on one dataset are repeats, whose mean counts, or
candidates, among which somebody has to choose; and results of different kinds stay apart.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from mlflow.entities import Run

from mlflow_mleval.errors import CandidatesError, IncomparableRunsError, MeasureError, NoRunsError
from mlflow_mleval.measures.metric_names import direction_of, directions, of_training
from mlflow_mleval.measures.registry import MEASURES, meant
from mlflow_mleval.selection import DIGEST, Selection, best_metric, key_of
from mlflow_mleval.store import schema
from mlflow_mleval.store.reader import Result, digest_of
from mlflow_mleval.study import Excluded
from mlflow_mleval.words import DECLARE, Argument, Message, count, did_you_mean, some

#: What is plainly a seed: these names, also as the last part of a longer one (model__random_state,
#: train.seed, data_seed).
_SEED = re.compile(
    r"(.*[_./:-])?(seed|random_state|random_seed|rng|try|attempt|repeat|repetition|replicate)",
    re.IGNORECASE,
)
#: A seed within the text of an estimator.
_SEED_IN_TEXT = re.compile(r"\b(\w*_)?(seed|random_state|rng)=[^,()\[\]{}]*", re.IGNORECASE)
#: A metric of validation, by its name: what one chooses by.
_VALIDATION = re.compile(r"(^|[_./-])(val|valid|validation|dev|cv)([_./-]|$)", re.IGNORECASE)
#: A metric of cross-validation, by its name.
_OF_FOLDS = re.compile(r"(^|[_/.-])(cv|folds?|split)_?\d*([_/.-]|$)|_std$", re.IGNORECASE)
#: What differs where one run was cross-validated and another not, or over other folds.
FOLDS = "number of folds"
#: What chooses runs.
FILTER = Argument("filter_string")
#: Cells that an error names.
_SHOWN = 4
#: A dataset and a method.
Cell = tuple[str, str]


def is_seed(param: str) -> bool:
    """Whether a param of this name is plainly a seed, or counts repeats.

    >>> [is_seed(name) for name in ("seed", "model__random_state", "data_seed", "n_seeds", "lr")]
    [True, True, True, False, False]
    >>> [is_seed(name) for name in ("try", "attempt", "trial", "n_repeats")]
    [True, True, False, False]
    """
    return _SEED.fullmatch(param) is not None


@dataclass(frozen=True)
class RepeatRule:
    """What tells repeats of a run from one another: seeds, and what ``param:NAME`` or ``tag:NAME``
    names; with ``digest`` each is on another split of the same data.
    """

    rules: tuple[str, ...] = ()

    def of(self, run: Run) -> tuple[str, dict[str, str]]:
        """Which repeat the run is (empty where nothing says so), and the params in which repeats
        are equal.
        """
        params, kinds = run.data.params, {"param": run.data.params, "tag": run.data.tags}
        kinds[DIGEST] = {"": digest_of(run)}
        named = [kinds[kind].get(key, "") for kind, key in map(key_of, self.rules)]
        seeds = [name for name in params if is_seed(name)]
        label = (
            ", ".join(filter(None, named))
            if named
            else params[min(seeds, key=len)]
            if seeds
            else ""
        )
        if "best_cv_score" in run.data.metrics:  # what a search found is no setting of it
            seeds += [name for name in params if name.startswith("best_")]
        gone = {*seeds, *(key for kind, key in map(key_of, self.rules) if kind == "param")}
        return label, {
            name: _SEED_IN_TEXT.sub("", text) for name, text in params.items() if name not in gone
        }

    def check(self, results: Sequence[Result]) -> None:
        """NoRunsError where no run has what was to name the repeats."""
        if self.rules and not any(r.repeat for r in results):
            has = dict.fromkeys(name for r in results for name in r.config)
            guess = did_you_mean((key_of(rule)[1] for rule in self.rules), has)
            params = f" Their params are {some(has)}.{guess}" if has else ""
            raise NoRunsError(
                f"no run has {some(self.rules)}, which was to tell repeats apart.{params}"
            )


def sign_of(metric: str, selection: Selection) -> int:
    """1 where larger values of the metric are better, -1 where smaller ones are; MeasureError where
    nobody says.
    """
    try:
        proposed = selection.directions == "proposed"
        ways = selection.minimize, selection.maximize
        way = directions([metric], *ways, proposed)[metric]
        return 1 if way == "max" else -1
    except ValueError as error:
        raise MeasureError(
            Message(
                f"no direction is known for {metric!r}, by which to choose.{meant([metric])} "
                "Declare it: ",
                DECLARE,
                ".",
            )
        ) from error


@dataclass(frozen=True)
class Repeats:
    """Which runs count for each cell, and what a reader must know about that.

    Attributes
    ----------
    results : list of Result
        One a cell; `members` are the runs of which it is the mean.
    excluded : list of Excluded
    notes : list of str
    chosen : dict of (dataset, method) to (str, int)
        By which metric, and among how many candidates, the best was chosen.
    """

    results: list[Result]
    excluded: list[Excluded]
    notes: list[str]
    chosen: dict[Cell, tuple[str, int]]


def gather(results: Sequence[Result], selection: Selection) -> Repeats:
    """One result a method and dataset: of repeats the mean, of candidates as `duplicates` says;
    results are in the order in which they started.

    Raises
    ------
    CandidatesError
        Runs differ in more than their seed, and the policy is "error".
    MeasureError
        No run has the metric by which to choose, or its direction is not known.
    """
    cells: dict[Cell, list[Result]] = {}
    for r in results:
        cells.setdefault((r.dataset, r.method), []).append(r)
    excluded: list[Excluded] = []
    cells = {cell: _without_copies(runs, excluded) for cell, runs in cells.items()}
    if selection.duplicates == "latest-data":
        cells = _of_latest_data(cells, excluded)
    elif selection.duplicates not in ("latest", "mean") and DIGEST not in selection.repeats_by:
        _refuse_other_data(cells, selection)
    mixed = {cell: names for cell, runs in cells.items() if (names := differing(runs))}
    notes: list[str] = []
    chosen: dict[Cell, tuple[str, int]] = {}
    if selection.duplicates == "latest":
        cells = _latest(cells, excluded)
    elif mixed and selection.duplicates in ("error", "latest-data"):
        raise _error(cells, mixed, selection)
    elif mixed and selection.duplicates == "mean":
        which = (_which(cell, cells[cell], params, " (", ")") for cell, params in mixed.items())
        notes.append(
            "As asked, runs that are no repeats of each other count as one method, by their "
            f"mean: {some(which, _SHOWN)}."
        )
    elif mixed:
        metric = best_metric(selection.duplicates)
        _check_chooser(metric, [r for cell in mixed for r in cells[cell]])
        larger = sign_of(metric, selection)
        reason = f"another candidate of the same method and dataset has a better {metric}"
        for cell in mixed:
            cells[cell], n, others = _best(cells[cell], metric, larger)
            chosen[cell] = metric, n
            excluded += [Excluded("run", r.name, reason) for r in others]
    notes += _doubts(cells, seeds=not selection.repeats_by)
    return Repeats([merged(runs) for runs in cells.values()], excluded, notes, chosen)


def _latest(
    cells: Mapping[Cell, list[Result]], excluded: list[Excluded]
) -> dict[Cell, list[Result]]:
    """Of each cell the run that started last; the others go to the list."""
    older = [r for runs in cells.values() for r in runs[:-1]]
    are = "run was" if len(older) == 1 else "runs were"
    reason = (
        f"{len(older):,} {are} passed over, because a later one of the same method and dataset "
        "counts"
    )
    excluded += [Excluded("run", r.name, reason) for r in older]
    return {cell: runs[-1:] for cell, runs in cells.items()}


def _of_latest_data(
    cells: Mapping[Cell, list[Result]], excluded: list[Excluded]
) -> dict[Cell, list[Result]]:
    """Of each dataset the runs on the data that were used last; the others go to the list."""
    by_dataset: dict[str, list[Result]] = {}
    for (dataset, _), runs in cells.items():
        by_dataset.setdefault(dataset, []).extend(r for r in runs if r.dataset_digest)
    last = {
        dataset: max(runs, key=lambda r: r.start_time).dataset_digest
        for dataset, runs in by_dataset.items()
        if schema.differ(r.dataset_digest for r in runs)
    }
    of_latest = {
        cell: [r for r in runs if last.get(cell[0], r.dataset_digest) == r.dataset_digest]
        for cell, runs in cells.items()
    }
    older = [r for cell, runs in cells.items() for r in runs if r not in of_latest[cell]]
    reason = "it is on other data than the latest runs of its dataset"
    excluded += [Excluded("run", r.name, reason) for r in older]
    return {cell: runs for cell, runs in of_latest.items() if runs}


def _refuse_other_data(cells: Mapping[Cell, Sequence[Result]], selection: Selection) -> None:
    """CandidatesError where runs of a cell are on different data."""
    digests = {cell: {r.dataset_digest for r in runs} - {""} for cell, runs in cells.items()}
    differ = [cell for cell, held in digests.items() if schema.differ(held)]
    if not differ:
        return
    which = [f"{_cell(cell)}: {count(len(digests[cell]), 'digest')}" for cell in differ]
    text = (
        f"Runs of one method on one dataset were made on different data ({some(which, _SHOWN)}): "
        "they are no repeats of each other, and are not averaged unasked."
    )
    ways: list[tuple[str, dict[str, Any]]] = [
        ("keep the runs on the latest data only", {"duplicates": "latest-data"})
    ]
    if selection.dataset_by is None:
        ways.append(("make a dataset of each digest", {"dataset_by": DIGEST}))
    splits = {"repeats_by": [*selection.repeats_by, DIGEST]}
    sure = all(_are_splits(cells[cell]) for cell in differ)
    what = "take them for splits of the same data, one a repeat"
    ways.insert(0 if sure else len(ways), (what, splits))
    raise CandidatesError(text, ways, sure)


def _are_splits(runs: Sequence[Result]) -> bool:
    """Whether data that differ look like splits of the same: three runs or more, each on data of
    its own, and all of one size.
    """
    digests, sizes = {r.dataset_digest for r in runs}, {(r.n_rows, r.n_test) for r in runs}
    unknown = (None, ()) in sizes
    return len(digests) == len(runs) > 2 and len(sizes) == 1 and not unknown


def differing(runs: Sequence[Result]) -> list[str]:
    """The params in which the runs differ, beside their seed; `FOLDS` where their protocols do.

    A run without any param tells nothing of how its method was set.
    """
    names = differing_params([r.config for r in runs if r.config])
    return names + [FOLDS] * (len({_protocol(r) for r in runs} - {0}) > 1)


def _protocol(r: Result) -> int:
    """Over how many folds a run was made, 1 for hold-out, -1 where names of metrics speak of some;
    0 where nobody says.
    """
    if r.n_test:
        return len(r.n_test)
    if r.by_fold is not None:
        return len(r.by_fold.folds)
    ours = r.named_by[0][0].startswith("tag:mleval.")
    return 0 if ours else -1 if any(map(_OF_FOLDS.search, r.values)) else 1


def differing_params(configs: Sequence[Mapping[str, str]]) -> list[str]:
    """Names that have several values, in order of first appearance; one that some lack has.

    >>> differing_params([{"lr": "1", "depth": "3"}, {"lr": "2", "depth": "3"}])
    ['lr']
    """
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({config.get(name) for config in configs}) > 1]


def merged(runs: Sequence[Result]) -> Result:
    """The mean of the runs that finished, in the order in which they started; a single run stays as
    it is.
    """
    if len(runs) == 1:
        return runs[0]
    finished = [r for r in runs if r.status == schema.COMPLETE]
    last = (finished or runs)[-1]
    profiles = [r.profiles for r in (last, *finished) if r.profiles]
    return replace(
        last,
        values=_means(finished),
        selected_among=max(r.selected_among for r in runs),
        plain={m for r in runs for m in r.plain},
        bad={m: v for r in runs for m, v in r.bad.items()},
        profiles=profiles[-1] if profiles else last.profiles,
        repeats=tuple(runs),
    )


def _means(runs: Sequence[Result]) -> dict[str, float]:
    """The mean of each measure over the runs that have it."""
    values: dict[str, list[float]] = {}
    for r in runs:
        for m, v in r.values.items():
            values.setdefault(m, []).append(v)
    return {m: math.fsum(v) / len(v) for m, v in values.items()}


def repeats_table(results: Sequence[Result], used: Sequence[str]) -> pd.DataFrame | None:
    """The values of every run that finished; None where no method has several on a dataset."""
    finished = [(r, [m for m in r.members if m.status == schema.COMPLETE]) for r in results]
    if all(len(runs) < 2 for _, runs in finished):
        return None
    index, rows = [], []
    for r, runs in finished:
        labels = [m.repeat for m in runs]
        unique = all(labels) and len({*labels}) == len(labels)
        index += [
            (r.dataset, r.method, label if unique else f"run {i}")
            for i, label in enumerate(labels, 1)
        ]
        rows += [[m.values.get(measure, math.nan) for measure in used] for m in runs]
    return pd.DataFrame(
        rows,
        pd.MultiIndex.from_tuples(index, names=["dataset", "method", "repeat"]),
        list(used),
        dtype=float,
    )


def choice_notes(
    chosen: Mapping[tuple[str, str], tuple[str, int]], used: Sequence[str]
) -> list[str]:
    """By what candidates and trials were chosen, and among how many."""
    notes = []
    for metric in sorted({metric for metric, _ in chosen.values()}):
        cells = some(
            (f"{m} on {d} (of {n})" for (d, m), (by, n) in chosen.items() if by == metric), 6
        )
        also = (
            ""
            if metric in used
            else (
                f" {metric} itself is not compared; if it was measured on the same data as what "
                "is, these results are optimistic."
            )
        )
        notes.append(f"The best of several candidates by {metric} was taken: {cells}.{also}")
    return notes


def mean_folds(runs: Sequence[tuple[Result, schema.FoldValues]]) -> schema.FoldValues | str:
    """Values by fold as means over repeats, or why there are none."""
    first = runs[0][1]
    if len(runs) == 1:
        return first
    folds, chooses = sorted(first.folds), (Argument("filter_string"), " chooses one of them")
    if any(sorted(values.folds) != folds for _, values in runs):
        return Message("its repeats have different folds; ", *chooses)
    if schema.differ(r.split_digest for r, _ in runs):
        return Message("its repeats split the data in different ways; ", *chooses)
    tables = [pd.DataFrame(values.values, index=values.folds) for _, values in runs]
    measures = dict.fromkeys(m for table in tables for m in table)
    whole = [table.reindex(folds, columns=list(measures)) for table in tables]
    means = np.mean([table.to_numpy(float) for table in whole], axis=0)
    return schema.FoldValues(folds, dict(zip(measures, means.T.tolist(), strict=True)))


def _cell(cell: Cell) -> str:
    return f"{cell[1]} on {cell[0]}"


def _which(
    cell: Cell,
    runs: Sequence[Result],
    params: Sequence[str],
    before: str = ": ",
    after: str = "",
) -> str:
    return f"{_cell(cell)}{before}{count(len(runs), 'run')} that differ in {some(params, 6)}{after}"


def _identity(r: Result) -> tuple[Any, ...]:
    """What repeats of one candidate have in common."""
    return _protocol(r), *sorted(r.config.items())


def _without_copies(runs: Sequence[Result], excluded: list[Excluded]) -> list[Result]:
    """Of runs that say just the same only the last: a result that was logged twice is no second
    repeat.
    """
    if len(runs) == 1:
        return [*runs]
    latest: dict[Any, Result] = {}
    for r in runs:
        key = (
            r.repeat,
            *_identity(r),
            r.status,
            *sorted(r.values.items()),
            r.folds,
            r.split_digest,
        )
        if (older := latest.pop(key, None)) is not None:
            excluded.append(Excluded("run", older.name, "the same result was logged again"))
        latest[key] = r
    return list(latest.values())


def _check_chooser(metric: str, runs: Sequence[Result]) -> None:
    """MeasureError where no run has the metric by which to choose."""
    has = {m for r in runs for m in r.values}
    if metric not in has:
        which = some(dict.fromkeys(_cell((r.dataset, r.method)) for r in runs), _SHOWN)
        guess = did_you_mean([metric], has)
        raise MeasureError(
            f"no run of {which} has {metric!r}, by which to choose; there are "
            f"{some(sorted(has))}.{guess}"
        )


def _best(
    runs: Sequence[Result], metric: str, larger: int
) -> tuple[list[Result], int, list[Result]]:
    """The repeats of the candidate whose mean is best, the number of candidates, and the runs of
    the others.
    """
    groups: dict[Any, list[Result]] = {}
    for r in runs:
        groups.setdefault(_identity(r), []).append(r)
    means = {
        key: np.mean(values)
        for key, rs in groups.items()
        if (values := [r.values[metric] for r in rs if metric in r.values])
    }
    if not means:
        _check_chooser(metric, runs)
    best = max(means, key=lambda key: larger * means[key])
    return groups[best], len(groups), [r for r in runs if _identity(r) != best]


def _doubts(cells: Mapping[Cell, Sequence[Result]], seeds: bool) -> list[str]:
    """What may be wrong with the means, and of which cells."""
    doubts: dict[str, list[str]] = {}
    repeated = {cell: runs for cell, runs in cells.items() if len(runs) > 1}
    for cell, runs in repeated.items():
        for doubt, names in _doubts_of(runs, seeds).items():
            if names:
                doubts.setdefault(doubt, []).append(f"{_cell(cell)} ({some(names, 3)})")
    return [f"{doubt}: {some(which, 6)}." for doubt, which in doubts.items()]


def _doubts_of(runs: Sequence[Result], seeds: bool) -> dict[str, list[str]]:
    """What may be wrong with the mean of these runs, with the seeds, counts and measures that show
    it.
    """
    finished = [r for r in runs if r.status == schema.COMPLETE]
    twice = Counter((r.repeat, *_identity(r)) for r in runs if r.repeat) if seeds else {}
    commits = sorted({r.commit[:7] for r in runs if r.commit})
    part = [f"{len(runs) - len(finished)} of {len(runs)}"]
    return {
        "Repeats have the same seed and other results, and all of them count": [
            label for (label, *_), n in twice.items() if n > 1
        ],
        "Some repeats did not finish, so that means are over the others": (
            part if 0 < len(finished) < len(runs) else []
        ),
        "Some repeats lack a value, so that its means are over the others": _lacking(finished),
        "Repeats were made by different versions of the code (their Git commits differ)": (
            commits if len(commits) > 1 else []
        ),
    }


def _lacking(runs: Sequence[Result]) -> list[str]:
    """Measures that some runs lack."""
    having = Counter(m for r in runs for m in r.values)
    return [f"{m} in {len(runs) - n} of {len(runs)}" for m, n in having.items() if n < len(runs)]


def _error(
    cells: Mapping[Cell, Sequence[Result]],
    mixed: Mapping[Cell, Sequence[str]],
    selection: Selection,
) -> CandidatesError:
    """What stops, and the ways on."""
    which = "; ".join(
        _which(cell, cells[cell], params) for cell, params in [*mixed.items()][:_SHOWN]
    )
    more = f"; and {count(len(mixed) - _SHOWN, 'more cell')}" if len(mixed) > _SHOWN else ""
    text = (
        f"{which}{more}. They are different methods or candidates of a search, which are not "
        "averaged unasked."
    )
    ways: list[tuple[str, dict[str, Any]]] = []
    metric, also = _to_choose_by([r for cell in mixed for r in cells[cell]], selection)
    if metric:
        what = f"take the best candidate by {metric}, with its repeats"
        if also:
            what += f" ({metric} is compared, too, so that a doubt will call the result optimistic)"
        ways.append((what, {"duplicates": f"best:{metric}"}))
    if apart := _apart(cells, mixed, complete=selection.missing == "error"):
        ways.append(("compare them as methods of their own", apart))
    ways += [
        ("average them all the same", {"duplicates": "mean"}),
        ("take the run that started last", {"duplicates": "latest"}),
    ]
    return CandidatesError(text, ways)


def _to_choose_by(runs: Sequence[Result], selection: Selection) -> tuple[str, bool]:
    """A metric that every run has and whose direction is known, rather one that is not compared,
    and whether it will be.
    """
    declared, compared = {*selection.minimize, *selection.maximize}, selection.measures
    proposed = selection.directions == "proposed"
    shared = set.intersection(*(set(r.values) for r in runs))
    held_out = shared - of_training(shared)
    directed = [m for m in held_out if m in declared or direction_of(m, proposed)]
    if not directed:
        return "", False
    best = min(
        directed,
        key=lambda m: (m in (compared or ()), not _VALIDATION.search(m), m not in declared, m),
    )
    return best, best in compared if compared is not None else len(directed) == 1


def _apart(
    cells: Mapping[Cell, Sequence[Result]],
    mixed: Mapping[Cell, Sequence[str]],
    complete: bool,
) -> dict[str, Any]:
    """The options that make methods of the candidates; on one dataset where others would have gaps;
    empty where none does.
    """
    rules = _rules(cells, mixed)
    if rules and complete and _gaps(cells, rules):
        dataset = next(iter(mixed))[0]
        here = {cell: names for cell, names in mixed.items() if cell[0] == dataset}
        return {"datasets": [dataset], "method_by": rules} if (rules := _rules(cells, here)) else {}
    return {"method_by": rules} if rules else {}


def _rules(
    cells: Mapping[Cell, Sequence[Result]],
    mixed: Mapping[Cell, Sequence[str]],
) -> list[str]:
    """The rules that name the method now, and the fewest params that tell the candidates apart;
    empty where params do not.
    """
    by = cells[next(iter(mixed))][0].named_by[0]
    params: dict[str, None] = {}
    for cell, names in mixed.items():
        configs = [dict(_identity(r)[1:]) for r in cells[cell]]
        if FOLDS in names:
            return []
        telling: list[str] = []
        while _n_apart(configs, telling) < _n_apart(configs, names):
            telling.append(
                max(
                    (n for n in names if n not in telling),
                    key=lambda n: _n_apart(configs, [*telling, n]),
                )
            )
        params |= dict.fromkeys(sorted(telling, key=names.index))
    return [*by, *(f"param:{name}" for name in params if f"param:{name}" not in by)]


def _n_apart(configs: Iterable[Mapping[str, str]], names: Sequence[str]) -> int:
    """How many candidates these params tell apart."""
    return len({tuple(config.get(name) for name in names) for config in configs})


def _gaps(cells: Mapping[Cell, Sequence[Result]], rules: Sequence[str]) -> bool:
    """Whether some method would lack a dataset, were methods named by these rules, too."""
    params = [key for kind, key in map(key_of, rules) if kind == "param"]
    there = {
        (dataset, (method, *(r.config.get(p) for p in params)))
        for (dataset, method), runs in cells.items()
        for r in runs
    }
    return len(there) < len({d for d, _ in there}) * len({m for _, m in there})


# --------------------------------------------------------------------------------------------------
# Results of different kinds, whose values do not compare.


def check_comparable(results: Sequence[Result]) -> None:
    """Refuse results that were computed under different conventions or, on one dataset, over
    different hierarchies.
    """
    stated = [r for r in results if r.conventions != schema.UNKNOWN_CONVENTIONS]
    groups = {
        c: [f"{r.method} on {r.dataset}" for r in stated if r.conventions == c]
        for c in {r.conventions for r in stated}
    }
    if len(groups) > 1:
        which = "; ".join(
            f"{c}: {count(len(names), 'run')} ({some(names, 3)})"
            for c, names in sorted(groups.items())
        )
        raise _of_different_kinds(
            f"the runs were computed under different conventions for empty sets and ties: {which}.",
            f"tags.`{schema.TAG_CONVENTIONS}` = '{min(groups)}'",
        )
    digests = {(r.dataset, r.hierarchy): r for r in results if r.hierarchy}
    if mixed := [d for d, n in Counter(d for d, _ in digests).items() if n > 1]:
        text = f"runs on {some(mixed)} used different hierarchies. Choose those of one by "
        raise IncomparableRunsError(Message(text, FILTER, "."))
    _check_weights(stated)


def _check_weights(results: Sequence[Result]) -> None:
    """Refuse results on one dataset that give its instances different weights, or weights and
    none.
    """
    weighted = {(r.dataset, r.dataset_digest, r.weights) for r in results if r.weights}
    plain = {r.dataset for r in results if not r.weights}
    same_data = Counter((dataset, data) for dataset, data, _ in weighted)
    mixed = {dataset for (dataset, _), n in same_data.items() if n > 1}
    mixed |= plain.intersection(dataset for dataset, _, _ in weighted)
    if mixed:
        digest = min(weights for dataset, _, weights in weighted if dataset in mixed)
        raise _of_different_kinds(
            f"runs on {some(sorted(mixed))} weigh the instances in different ways "
            "(`sample_weight`), or some do and others do not.",
            f"tags.`{schema.TAG_WEIGHTS}` = '{digest}'",
        )


def _of_different_kinds(what: str, example: str) -> IncomparableRunsError:
    choose = f"{what} Their values do not compare; choose those of one kind by "
    return IncomparableRunsError(Message(choose, FILTER, f', for example "{example}".'))


def check_propensities(results: Sequence[Result], used: Sequence[str]) -> None:
    """Refuse measures of one dataset that weigh labels by different training labels."""
    digests = {(r.dataset, r.propensities): r for r in results if r.propensities}
    mixed = [d for d, n in Counter(d for d, _ in digests).items() if n > 1]
    if mixed and (scored := [m for m in used if m in MEASURES and m.startswith(("ps", "s_min"))]):
        raise IncomparableRunsError(
            Message(
                f"runs on {some(mixed)} took the propensities or information of labels from "
                "different training labels. Choose those of one by ",
                FILTER,
                f" (tag {schema.TAG_PROPENSITIES}), or leave out {some(scored, 4)}.",
            )
        )
