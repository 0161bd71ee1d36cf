"""The errors above the pure layers. The pure layers raise ValueError or TypeError."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mlflow_mleval.sentences import Argument, Message, joined, some

#: What can be done: what each way does, and the arguments of `load_study` that make it.
Ways: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]


class MlevalError(Exception):
    """Base of every error that a user can fix; the CLI prints it as one line and exits with 1."""


class NoRunsError(MlevalError):
    """The selection holds no run that can be used."""


class IncomparableRunsError(MlevalError):
    """The runs cannot be one table: mixed conventions, no measure in common, one method only."""


class ChoiceError(IncomparableRunsError):
    """Somebody has to choose: `text` says what is the matter, `ways` what can be done."""

    def __init__(self, text: str, ways: Ways = ()) -> None:
        self.text, self.ways = text, ways
        choices = []
        for what, options in ways:
            arguments = (
                Argument(name, value) if isinstance(value, str) else f"`{name}={value!r}`"
                for name, value in options.items()
            )
            choices.append(Message(joined(", ", arguments), f" to {what}"))
        super().__init__(Message(text, " Choose: ", joined("; ", choices), ".") if ways else text)


class CandidatesError(ChoiceError):
    """Runs of one cell differ in more than their seed; if `sure`, the first way may stand alone."""

    def __init__(self, text: str, ways: Ways, sure: bool = True) -> None:
        super().__init__(text, ways)
        self.sure = sure


class MissingResultsError(ChoiceError):
    """Cells of the table methods x datasets are empty and no policy for them was chosen."""


class LostAnswersError(IncomparableRunsError):
    """The store has lost answers of a candidate, and nobody sees how bad they were."""


class UnclearError(MlevalError):
    """Nobody said what to compare, and what there is does not tell: `ways` (each a Way) are what
    there is to do; `undirected` where all that lacks is directions, which names propose."""

    def __init__(self, text: str, ways: Sequence[Any], undirected: bool = False) -> None:
        self.text, self.ways, self.undirected = text, ways, undirected
        commands = (f"{way.what}: `{way.line}`" for way in ways)
        super().__init__(Message(text, " Choose: ", "; ".join(commands)) if ways else text)


class MeasureError(MlevalError):
    """A measure is unknown, has no declared direction, or is not in the selected runs."""


class UndirectedError(ChoiceError, MeasureError, NoRunsError):
    """Nobody knows which way metrics are better; the ways say so."""

    @staticmethod
    def ways_for(
        metrics: Sequence[str], suggested: Mapping[str, str], every: bool
    ) -> list[tuple[str, dict[str, Any]]]:
        """To take suggested directions, or either one for metrics that need one and have none."""
        silent = [m for m in metrics if m not in suggested] if every or not suggested else []
        more = {"directions": "proposed"} if suggested else {}
        ways = list[tuple[str, dict[str, Any]]]()
        for declared in ("max", "min") if silent else ("",):
            better = {**suggested, **dict.fromkeys(silent, declared)}
            sides = (("larger", "max"), ("smaller", "min"))
            named = [(size, [m for m in better if better[m] == way]) for size, way in sides]
            values = (f"{size} values of {some(measures)}" for size, measures in named if measures)
            what = f"take {' and '.join(values)} for the better ones"
            if silent:
                ways.append((what, {f"{declared}imize": silent, **more}))
            else:
                ways.append((f"{what}, as suggested", more))
        return ways


class ImportFileError(MlevalError):
    """A file of results or predictions is malformed; the text names the row and the column."""


class StoreError(MlevalError):
    """The tracking store cannot be reached or refused what was asked."""

    code = reason = ""  # of a single request: MLflow's code of its failure, and why it failed
