"""Answers that several methods gave to the same questions, put side by side: question by question,
never by place alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from mlflow_mleval.errors import IncomparableRunsError, MissingResultsError
from mlflow_mleval.naming import count, quoted, some

#: The share of questions that may be absent somewhere with no more than a doubt.
MOST_LOST = 0.05
#: What a scorer says of an answer that passes, and of one that does not.
PASS = {
    True: 1.0,
    False: 0.0,
    "yes": 1.0,
    "no": 0.0,
    "true": 1.0,
    "false": 0.0,
    "pass": 1.0,
    "fail": 0.0,
}


@dataclass(frozen=True)
class Answers:
    """What one method was given for its answers.

    Attributes
    ----------
    values : DataFrame
        One row an answer, one column a measure; NaN where a scorer gave none. The index is the key
        of the question: its own id, or a hash of all that was asked. A key that occurs again is
        another answer to the same question.
    about : DataFrame
        One row an answer, the same index: `link` (what opens the answer), `asked` (the beginning of
        the question), and whatever may say which questions belong together.
    digest : str
        Of the data that was asked; empty where it is not known.
    counted : int, optional
        How many answers were scored; the table holds fewer where some were lost.
    scorers : dict of str to str
        By measure, which version of the scorer gave it.
    passing : tuple of str
        Measures of pass or fail.
    notes : tuple of str
        What was not read, and why.
    words : tuple of str
        Measures that are no numbers: their words stand in `about` until `graded` is told their
        order.
    """

    values: pd.DataFrame
    about: pd.DataFrame
    digest: str = ""
    counted: int | None = None
    scorers: Mapping[str, str] = field(default_factory=dict)
    passing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Aligned:
    """Answers of several methods to the same questions.

    Attributes
    ----------
    tables : dict of str to DataFrame
        By method, the mean of its answers to each question; the same questions in the same order
        for all.
    answers : dict of str to Answers
        By method, every single one, of these questions only.
    measures, passing : list of str
        Those that all methods have, and which of them are pass or fail.
    notes : tuple of str
        What a reader must know: lost answers, failed scorers, other data or scorers.
    """

    tables: dict[str, pd.DataFrame]
    answers: dict[str, Answers]
    measures: list[str]
    passing: list[str]
    notes: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether some question was answered more than once."""
        return any(a.values.index.has_duplicates for a in self.answers.values())


def aligned(answers: Mapping[str, Answers], *, shared: bool = False) -> Aligned:
    """The answers of all methods to the questions that all of them answered.

    Parameters
    ----------
    answers : mapping of str to Answers
        By method.
    shared : bool
        Whether to go on where more than a twentieth of the questions is missing somewhere.

    Raises
    ------
    MissingResultsError
        Fewer than two methods, or so many answers are missing that the rest says little of the
        whole.
    IncomparableRunsError
        They share no question or no measure.

    Examples
    --------
    >>> def made(values):
    ...     keys = pd.Index(["q2", "q1"])
    ...     return Answers(pd.DataFrame({"exact": values}, keys), pd.DataFrame({"link": "", "asked": keys}, keys))
    >>> aligned({"a": made([1.0, 0.0]), "b": made([0.0, 0.0])}).tables["b"]["exact"].to_dict()
    {'q1': 0.0, 'q2': 0.0}
    """  # noqa: E501
    if len(answers) < 2:
        raise MissingResultsError(
            f"only {count(len(answers), 'method')} has values by instance; a comparison needs two."
        )
    questions = {method: a.values.index.unique() for method, a in answers.items()}
    every = _union(questions.values())
    common = every[np.logical_and.reduce([every.isin(known) for known in questions.values()])]
    notes = [note for a in answers.values() for note in a.notes]
    if not len(common):
        raise IncomparableRunsError(
            f"{some(answers)} share none of their {len(every):,} instances. Choose runs on the "
            "same data, or say what identifies an instance (`instance_by`)."
        )
    lost = [
        f"{method}: {a.counted - len(a.values):,} of {a.counted:,} answers"
        for method, a in answers.items()
        if a.counted and a.counted > len(a.values)
    ]
    absent = {method: len(every) - len(known) for method, known in questions.items()}
    gone = [f"{method}: {n:,} of {len(every):,}" for method, n in absent.items() if n]
    worst = max(
        1 - len(common) / len(every),
        *(1 - len(a.values) / (a.counted or len(a.values)) for a in answers.values()),
    )
    if worst > MOST_LOST and not shared:
        raise MissingResultsError(
            f"{len(common):,} of {len(every):,} instances are known for all methods"
            + (f"; missing in {some(gone)}" if gone else "")
            + (f"; the store has lost answers of {some(lost)}" if lost else "")
            + (
                ". What is left may differ from what is lost. Evaluate again, or compare on the "
                "shared instances (`shared=True`)."
            )
        )
    if lost:
        notes.append(
            f"The store holds fewer answers than the runs counted ({some(lost)}): the verdict is "
            "about the rest."
        )
    if gone:
        notes.append(
            f"{len(common):,} of {len(every):,} instances are compared, those of all methods; "
            f"missing in {some(gone)}."
        )
    notes += _other_data(answers) + _other_scorers(answers)
    measures = [
        m
        for m in next(iter(answers.values())).values
        if all(m in a.values for a in answers.values())
    ]
    if not measures:
        had = "; ".join(f"{method}: {some(a.values, 5)}" for method, a in answers.items())
        raise IncomparableRunsError(f"the methods have no measure by instance in common ({had}).")
    if apart := sorted({m for a in answers.values() for m in a.values} - set(measures)):
        notes.append(f"Not known for all methods and left out: {some(apart)}.")
    tables = {
        method: a.values[measures].groupby(level=0).mean().reindex(common)
        for method, a in answers.items()
    }
    kept = {method: _only(a, common, measures) for method, a in answers.items()}
    notes += _without_value(kept, measures) + _repeated(kept, len(common))
    passing = [m for m in measures if all(m in a.passing for a in answers.values())]
    return Aligned(tables, kept, measures, passing, tuple(dict.fromkeys(notes)))


def unclear(measure: str, words: Sequence[object]) -> str:
    """What to tell of a measure whose values are words that nobody ordered."""
    return (
        f"{measure} is left out, for {some(map(quoted, words), 5)} are no numbers: declare its "
        f"grades from worst to best, as in {measure}={','.join(map(str, words[:3]))}."
    )


def graded(answers: Answers, grades: Mapping[str, Sequence[str]]) -> Answers:
    """The answers with a number for each word of the measures whose grades are declared; a note
    names the other measures.

    >>> about = pd.DataFrame({"quality": ["poor", "good"]}, index=["q1", "q2"])
    >>> found = Answers(pd.DataFrame(index=about.index), about, words=("quality",))
    >>> graded(found, {"quality": ["poor", "fair", "good"]}).values["quality"].tolist()
    [0.0, 2.0]
    >>> graded(found, {}).notes
    ("quality is left out, for 'poor', 'good' are no numbers: declare its grades from worst to best, as in quality=poor,good.",)
    """  # noqa: E501
    values, notes, passing = answers.values.copy(), [*answers.notes], answers.passing
    for measure in dict.fromkeys([*grades, *answers.words]):
        if measure not in answers.about:
            continue
        cells = answers.about[measure].fillna("").astype(str)
        order = {word: float(place) for place, word in enumerate(grades.get(measure, ()))}
        if strange := [word for word in cells.unique() if word.strip() and word not in order]:
            notes.append(unclear(measure, strange))
            values = values.drop(columns=measure, errors="ignore")
            continue
        values[measure] = cells.map(order)
        passing = tuple(m for m in passing if m != measure)
    return replace(answers, values=values, notes=tuple(notes), passing=passing, words=())


def _union(indexes: Iterable[pd.Index]) -> pd.Index:
    first, *others = indexes
    for other in others:
        first = first.union(other)
    return first.sort_values()


def _only(answers: Answers, keys: pd.Index, measures: list[str]) -> Answers:
    rows = answers.values.index.isin(keys)
    return Answers(
        answers.values.loc[rows, measures],
        answers.about.loc[rows],
        answers.digest,
        answers.counted,
        answers.scorers,
        answers.passing,
        answers.notes,
        answers.words,
    )


def _other_data(answers: Mapping[str, Answers]) -> list[str]:
    digests: dict[str, list[str]] = {}
    for method, a in answers.items():
        digests.setdefault(a.digest, []).append(method)
    digests.pop("", None)
    if len(digests) < 2:
        return []
    said = "; ".join(f"{digest}: {some(methods, 5)}" for digest, methods in digests.items())
    return [
        f"The digests of the data differ ({said}): the questions compared are the same, what was "
        "expected may not be."
    ]


def _other_scorers(answers: Mapping[str, Answers]) -> list[str]:
    versions: dict[str, set[str]] = {}
    for a in answers.values():
        for measure, version in a.scorers.items():
            versions.setdefault(measure, set()).add(version)
    changed = [measure for measure, found in versions.items() if len(found - {""}) > 1]
    said = (
        f"The methods were scored by other versions of the scorer on {some(changed)}: a "
        "difference may be the scorer's."
    )
    return [said] if changed else []


def _without_value(answers: Mapping[str, Answers], measures: list[str]) -> list[str]:
    found = [
        f"{measure} of {method}: {n:,} of {len(a.values):,}"
        for method, a in answers.items()
        for measure in measures
        if (n := int(a.values[measure].isna().sum()))
    ]
    return [f"Without a value, for its scorer failed or gave none: {some(found)}."] if found else []


def _repeated(answers: Mapping[str, Answers], n: int) -> list[str]:
    found = {method: int(a.values.index.duplicated().sum()) for method, a in answers.items()}
    if not any(found.values()):
        return []
    said = some(f"{method}: {len(a.values):,} answers" for method, a in answers.items())
    return [
        f"Some of the {n:,} questions were answered more than once ({said}); a question counts "
        "once, with its mean."
    ]
