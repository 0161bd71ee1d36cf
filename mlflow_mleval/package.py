"""The version of the package, what loads when it is first asked for, and results that make a report
of themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__version__ = "0.2.0"


class Later:
    """A module that loads when something in it is first asked for, and has what that has then."""

    def __init__(self, module: str) -> None:
        self.__dict__["module"] = module

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("module")
        if not isinstance(module, str):
            raise AttributeError(f"{self.__name__} has no attribute {name!r}")
        self.__dict__ = import_module(module).__dict__
        return getattr(self, name)


def imported(home: str, name: str = "") -> Any:
    """What has the name in a module of the package, which is loaded for it; ``module:other`` where
    it is called otherwise there."""
    module, _, called = home.partition(":")
    return getattr(import_module(f"mlflow_mleval.{module}"), called or name)


def lazily(
    module: str, where: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module whose names load on first use, by what
    `imported` takes for each."""
    names = sorted(where)

    def __getattr__(name: str) -> Any:
        if name not in where:
            raise AttributeError(
                f"module {module!r} has no attribute {name!r}; it has {', '.join(names)}"
            )
        return imported(where[name], name)

    return __getattr__, lambda: names


#: By the name of a method of results, where its document or drawing is made; the package says it.
makers = SimpleNamespace()


class Reported:
    """Gives a result the method `report`, though reports stand two layers above; see `makers`."""

    def report(self, provenance: Mapping[str, Any] | None = None) -> Any:
        """What was found as a document: to_html(path), to_markdown(), to_latex(), to_dict(); a
        notebook shows it as a page.

        Parameters
        ----------
        provenance : mapping, optional
            What reproduces it: command, versions, run ids …; told at the end.
        """
        return imported(makers.report)(self, provenance)

    def _repr_html_(self) -> str:
        """What a notebook shows of the result."""
        return self.report()._repr_html_()


@dataclass(frozen=True)
class Display:
    """A drawing by matplotlib, as scikit-learn's displays are: axes to change, a figure to save."""

    ax_: Axes
    figure_: Figure | SubFigure


class Plotted(Reported):
    """Gives a result the method `plot`, too."""

    def plot(self, kind: str = "", *, ax: Axes | None = None, **options: Any) -> Display:
        """Draw the result on axes of matplotlib, which has to be installed.

        Parameters
        ----------
        kind : str
            Of a comparison "ranking" or "critical differences", of compared profiles "profiles", of
            a verdict "forest". Default: the first that there is.
        ax : matplotlib.axes.Axes, optional
            Where to draw. Default: a figure of its own.
        **options
            Of profiles ``dataset``, the one to draw; by default the first.

        Returns
        -------
        Display
            ``ax_`` and ``figure_``, as of scikit-learn's displays.

        Raises
        ------
        MlevalError
            matplotlib is not installed.
        ValueError
            There is no such kind or dataset.
        """
        made: Display = imported(makers.plot)(self, kind, ax, **options)
        return made


class Detailed(Plotted):
    """Gives a result the method `detail`, too."""

    def detail(
        self,
        *,
        method: str = "",
        dataset: str = "",
        against: str = "",
        provenance: Mapping[str, Any] | None = None,
    ) -> Any:
        """A closer look, as a document: at a method, a dataset, a method on a dataset, or a method
        against another.

        Of a method its ranks on each dataset, its places by each measure and its pairs; of a
        dataset its ranking, flows by measure, folds and profiles; of a method on a dataset its runs
        with their values, repeats and folds; of a pair the differences by each measure with their
        intervals, what each test says, and both profiles.

        Parameters
        ----------
        method, dataset, against : str
            What to look at; `against` is a second method.
        provenance : mapping, optional
            What reproduces it, as in `report`.

        Raises
        ------
        ValueError
            Neither a method nor a dataset, or another method without a first one, or beside a
            dataset.
        IncomparableRunsError
            A name that the comparison does not have.
        """
        if not (method or dataset) or (against and (dataset or not method)):
            raise ValueError(
                "`detail` must be of a method, a dataset, both, or a method against another, got "
                f"method={method!r}, dataset={dataset!r}, against={against!r}."
            )
        names = {"method": method, "dataset": dataset, "against": against}
        return imported(makers.detail)(self, provenance or {}, **names)
