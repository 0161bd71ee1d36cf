"""What tells methods, datasets and repeats apart, and where that is too weak for a test that counts
them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from mlflow_mleval.selection import DIGEST, Selection, name_parts
from mlflow_mleval.sentences import Argument, Message, count, joined
from mlflow_mleval.store.reader import Results
from mlflow_mleval.store.rules import DATASET, is_seed
from mlflow_mleval.store.runs_table import RunsTable
from mlflow_mleval.study import Factor

#: What names a method or a dataset, in words.
_IN_WORDS = {
    "tag:mleval.method": "its own tag",
    "tag:mleval.dataset": "its own tag",
    "estimator": "scikit-learn's estimator",
    "run_name": "the name of the run",
    "input": "the name of the dataset input",
    "shape": "the shape of the data",
    "experiment": "the experiment",
    DIGEST: "the digest of the data",
    "all": "nothing: experiments are methods, and their data are taken for the same",
}
#: A part of a run's name that numbers repeats.
_NUMBERED = re.compile(r"(?P<before>|s|seed|r|rep|repeat|run|try|split)\d+", re.I)
#: A name that MLflow or a search makes up for a run without one.
MADE_UP = re.compile(r"[a-z]+-[a-z]+-\d{1,4}|(trial[_ -]?)?\d+", re.IGNORECASE)
#: What settles that each experiment is a dataset.
_ALONE = Argument("dataset_by", "experiment")
#: What stands between the parts of names.
_BETWEEN = ("_", "/", "-", " ", ".", "|")


def factors_of(results: Results, selection: Selection) -> tuple[Factor, ...]:
    """What tells the methods, the datasets and the repeats of these runs apart."""
    rows = results.rows
    methods = Factor("method", rows["method"].nunique(), told_by(rows["method_by"]))
    doubt = more = ""
    if selection.dataset_by is None and "dataset" not in name_parts(selection.name_as or ""):
        by_experiment = results.where(rows["dataset_by"] == "experiment")
        n = rows["dataset"].nunique()
        doubt = _more(by_experiment, n)
        more = doubt or _fewer(by_experiment, n)
    factors = [methods, _datasets(results, selection, more)]
    repeats = rows.groupby(["dataset", "method"]).size()
    if repeats.max() > 1:
        factors.append(Factor("repeat", int(repeats.max()), _repeated(results, selection), doubt))
    return tuple(factors)


def told_by(rules: pd.Series) -> str:
    """By what names were found, with counts where there are several ways."""
    counts = Counter(rules)
    return ", ".join(
        f"{_IN_WORDS.get(rule, rule)} ({count(n, 'run')})"
        if len(counts) > 1
        else str(_IN_WORDS.get(rule, rule))
        for rule, n in counts.most_common()
    )


def _datasets(results: Results, selection: Selection, doubt: str) -> Factor:
    """How the datasets are told apart; digests are splits of a dataset, unless somebody says that
    each is one.
    """
    rows, shapes = results.rows, results.table.frame["shape"]
    n, by = rows["dataset"].nunique(), told_by(rows["dataset_by"])
    known = rows[rows["dataset_digest"] != ""].groupby("dataset")["dataset_digest"].nunique()
    own = Argument("dataset_by", DIGEST)
    if selection.dataset_by == DIGEST and 0 < shapes.nunique() < n and (shapes != "").all():
        by = f"{by}, as asked; by its shape there would be {shapes.nunique()}"
    elif selection.dataset_by is None and (known > 1).any():
        of = known[known > 1].sum()
        by = Message(f"{by}; {of} digests are splits of them (", own, " if each is its own)")
    return Factor("dataset", n, by, doubt)


def _more(results: Results, n: int) -> str:
    """That there may be more datasets, of runs whose dataset nothing but the experiment names: a
    param that nobody named, or a part of the runs' names, says otherwise.
    """
    these = "This may be one dataset" if n == 1 else f"These may be {n} datasets"
    for rule, texts in _called_dataset(results.table):
        if (texts.groupby(results.rows["dataset"]).nunique() > 1).any():
            several = f"{these} or {texts.nunique()}, for {rule} differs: say "
            return Message(several, Argument("dataset_by", rule), " or ", _ALONE, ".")
    pattern = pattern_of(results.table)
    if "dataset" not in name_parts(pattern):
        return ""
    several = f"{these} or more, for the names of the runs differ in further parts: say "
    return Message(several, Argument("name_as", pattern), " or ", _ALONE, ".")


def _fewer(results: Results, n: int) -> str:
    """That there may be fewer, where the shapes of their data do not tell the experiments apart."""
    if not len(results) or n == 1:
        return ""
    shapes = results.table.frame["shape"]
    of_each = shapes.groupby(results.rows["dataset"]).agg(["nunique", "first"])
    if (of_each["nunique"] == 1).all() and of_each["first"].is_unique and (shapes != "").all():
        return ""
    text = f"These may be {n} datasets, for nothing but the experiment tells them apart: say "
    return Message(text, _ALONE, " if each is of its own data.")


def _called_dataset(table: RunsTable) -> list[tuple[str, pd.Series]]:
    """The params and tags that are called like a dataset's, with their texts."""
    return [
        (f"{kind}:{name}", table.texts(f"{kind}s.{name}"))
        for kind in ("param", "tag")
        for name in table.names[f"{kind}s"]
        if re.split(r"[./:]|__", name)[-1].lower() in DATASET and not name.startswith("mlflow.")
    ]


def pattern_of(table: RunsTable) -> str:
    """What the names of the runs seem to say, as `name_as` takes it: the parts that vary, of which
    one that a param holds is the method, else the first; empty where names are not built alike.

    A guess, which nobody may follow unasked.
    """
    names = table.frame["run_name"]
    if any(map(MADE_UP.fullmatch, names.unique())):
        return ""
    for between in _BETWEEN:
        parts = names.str.split(between, regex=False)
        if len(names) and parts.map(len).nunique() == 1 and len(parts.iloc[0]) > 1:
            columns = pd.DataFrame(parts.tolist(), index=names.index)
            if pattern := _pattern(columns, between, table):
                return pattern
    return ""


def _pattern(columns: pd.DataFrame, between: str, table: RunsTable) -> str:
    texts = columns.iloc[0].tolist()
    varying = []
    for i in columns:
        numbers = [_NUMBERED.fullmatch(text) for text in columns[i].unique()]
        before = {hit["before"] for hit in numbers if hit}
        if columns[i].nunique() == 1:
            continue
        if all(numbers) and len(before) == 1 and "{seed}" not in "".join(texts):
            texts[i] = f"{before.pop()}{{seed}}"
        else:
            varying.append(i)
    if len(varying) not in (1, 2):
        return ""
    params = [table.texts(f"params.{name}") for name in table.names["params"] if not is_seed(name)]
    # the method comes first, unless a param says that the other part is it
    if len(varying) == 2 and any([*columns[varying[1]]] == [*text] for text in params):
        varying.reverse()
    for part, i in zip(("{method}", "{dataset}"), varying, strict=False):
        texts[i] = part
    whole = between.join(texts)
    return whole if len(varying) == 2 or "{seed}" in whole else ""


def _repeated(results: Results, selection: Selection) -> str:
    """What tells repeats apart: what was asked for, seeds, the data, or nothing."""
    rows = results.rows
    several = rows[rows.duplicated(["dataset", "method"], keep=False)]
    cells = several.groupby(["dataset", "method"])
    told = []
    if selection.repeats_by:
        told.append(f"{', '.join(selection.repeats_by)}, as asked")
    elif (cells["repeat"].nunique() > 1).any():
        seeds: Sequence[str] = sorted(filter(is_seed, results.table.names["params"]), key=len)
        told.append(f"param:{seeds[0]}" if seeds else "its number")
    digests = several["dataset_digest"] + several["split_digest"]
    if (digests.groupby([several["dataset"], several["method"]]).nunique() > 1).any():
        told.append("different splits of the data")
    return joined(" and ", told) if told else "nothing: they have the same params"
