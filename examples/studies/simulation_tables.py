"""Tables of error rates, and the values that the simulation study draws."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from mlflow_mleval import Study

ALPHA, MOST = 0.05, 0.06
Array = np.ndarray
Generator = np.random.Generator


@dataclass
class Table:
    """Error rates by test and data: of every repetition whether the test erred, or the share of its
    pairs on which it did.

    `remarks` say of a test or of data why no error rate of at most 5% is claimed there.
    """

    title: str
    about: str
    remarks: dict[str, str] = field(default_factory=dict)
    errors: dict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, test: str, data: str, erred: float) -> None:
        self.errors[test, data].append(float(erred))

    def rates(self) -> pd.DataFrame:
        """By test and data: rate, its standard error, repetitions, and whether it is above MOST by
        more than chance explains.
        """
        rows = {
            key: (np.mean(e), np.std(e) / np.sqrt(len(e)), len(e)) for key, e in self.errors.items()
        }
        found = pd.DataFrame.from_dict(rows, orient="index", columns=["rate", "error", "n"])
        found.index = pd.MultiIndex.from_tuples(found.index, names=["test", "data"])
        claimed = np.array([not {*key} & {*self.remarks} for key in found.index])
        return found.assign(
            claimed=claimed, above=claimed & (found["rate"] - 2 * found["error"] > MOST)
        )

    def markdown(self) -> list[str]:
        found = self.rates()
        tests, data = (list(dict.fromkeys(key[i] for key in self.errors)) for i in (0, 1))
        numbers = {text: k for k, text in enumerate(dict.fromkeys(self.remarks.values()), start=1)}
        marks = {name: f" ({numbers[text]})" for name, text in self.remarks.items()}
        lines = [
            f"## {self.title}",
            "",
            self.about,
            "",
            f"| test | {' | '.join(d + marks.get(d, '') for d in data)} |",
            "|---|" + "---|" * len(data),
        ]
        for test in tests:
            cells = []
            for name in data:
                if (test, name) not in found.index:
                    cells.append("")
                    continue
                row = found.loc[(test, name)]
                text = f"{row['rate']:.3f}".lstrip("0")
                cells.append(
                    f"**{text}**" if row["above"] else text if row["claimed"] else f"*{text}*"
                )
            lines.append(f"| {test}{marks.get(test, '')} | {' | '.join(cells)} |")
        few, many = (f"{k:,}" for k in (found["n"].min(), found["n"].max()))
        count = few if few == many else f"{few} to {many}"
        lines += [
            "",
            f"{count} repetitions; standard errors of the rates are at most "
            f"{found['error'].max():.3f}.",
        ]
        return [*lines, *(f"({k}) {text}." for text, k in numbers.items()), ""]


def noise(rng: Generator, kind: str, *shape: int) -> Array:
    """Independent values with mean 0, distributed alike for all methods (the last axis) unless they
    vary unequally.
    """
    if kind == "skewed":
        return rng.standard_exponential(shape) - 1
    values = rng.normal(size=shape)
    if kind == "ties":
        return np.round(values)
    return values * np.where(np.arange(shape[-1]) == 0, 4.0, 1.0) if kind == "unequal" else values


def measured(values: Array) -> Study:
    """A study of values datasets x methods x measures, larger is better; NaN where a method did not
    finish.
    """
    n_datasets, m, p = values.shape
    index = pd.MultiIndex.from_product([range(n_datasets), range(m)], names=["dataset", "method"])
    names = ["f1", "accuracy", "recall", "precision"][:p]
    return Study(
        pd.DataFrame(values.reshape(-1, p), index, names), dict.fromkeys(names, "max"), "worst"
    )


def correlated(rng: Generator, m: int, p: int, n_folds: int = 10) -> Array:
    """Normal values, methods x folds x measures: all folds correlate by .1, and all measures by
    .5.
    """
    own, common = (
        np.sqrt(0.1) * rng.normal(size=(m, 1, k)) + np.sqrt(0.9) * rng.normal(size=(m, n_folds, k))
        for k in (p, 1)
    )
    return (own + common) / np.sqrt(2)
