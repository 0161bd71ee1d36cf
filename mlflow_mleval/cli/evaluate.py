"""The command `mleval evaluate`: a file of predictions into a run."""

from __future__ import annotations

import sys
from typing import Any

import click

from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.command import Command, Option, flags
from mlflow_mleval.cli.output import progress, say, width, write

_FILE = click.Path(exists=True, dir_okay=False)


class _Predictions(click.ParamType):
    """A file that is there; or what Spark reads, wherever it lies."""

    name = "file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if ctx.params.get("engine") == "spark" else _FILE.convert(value, param, ctx)


_HIERARCHICAL = (
    Option(
        "Hierarchy",
        "--max-distance",
        type=float,
        help="Cost of a class without a partner (gie, mgia). Default: 5.",
    ),
    Option(
        "Hierarchy",
        "--lca",
        type=click.Choice(["extended", "minimal"]),
        help="Graphs of the LCA measures. Default: extended.",
    ),
    Option(
        "Hierarchy",
        "--lca-max-distance",
        type=float,
        help="Classes farther apart than this meet in a dummy ancestor.",
    ),
    Option(
        "Hierarchy",
        "--class-costs",
        type=click.Choice(["siblings"]),
        help=(
            "Share the cost of an error at a class among its children (h_loss). Default: each "
            "costs 1."
        ),
    ),
    Option(
        "Hierarchy",
        "--count-root",
        is_flag=True,
        default=None,
        help="Count the virtual root, as HEMKit does.",
    ),
)


#: What has no meaning for answers that a run holds.
_FOR_FILES = (
    "cluster",
    "threshold",
    "probabilities",
    "truth",
    "train_labels",
    "engine",
    "master",
    "run_id",
)


@click.command(
    cls=Command,
    params=[
        Option(
            "Evaluation",
            "--method",
            metavar="NAME",
            help="What made the predictions; with --run by default the run's name.",
        ),
        Option(
            "Evaluation",
            "--dataset",
            metavar="NAME",
            help="What they were made on; with --run by default the run's data, or its experiment.",
        ),
        Option(
            "Evaluation",
            "--threshold",
            type=float,
            help=(
                "Predict the labels with at least this score, if FILE has scores only. Default: "
                "0.5."
            ),
        ),
        Option(
            "Evaluation",
            "--no-probabilities",
            "probabilities",
            is_flag=True,
            default=None,
            flag_value=False,
            help="Of one label: the scores are no probabilities, although all lie between 0 and 1.",
        ),
        Option(
            "Evaluation",
            "--conventions",
            type=click.Choice(["sklearn", "mulan"]),
            help="How empty sets and ties count. Default: sklearn.",
        ),
        Option(
            "Evaluation",
            "--truth",
            type=_FILE,
            metavar="FILE",
            help=(
                "The true labels as a sparse matrix, FILE having scores; with --hierarchy, lines "
                "of true classes."
            ),
        ),
        Option(
            "Evaluation",
            "--train-labels",
            type=_FILE,
            metavar="FILE",
            help=(
                "The labels of the training instances, as in --truth; adds propensity-scored "
                "measures."
            ),
        ),
        Option(
            "Evaluation",
            "-m",
            "--measure",
            "measures",
            multiple=True,
            metavar="NAME",
            help=(
                "Compute this measure or set, too: precision_at_10, probabilistic and others. "
                "See 'mleval measures'."
            ),
        ),
        Option(
            "Evaluation",
            "--cluster",
            metavar="COLUMN",
            help=(
                "The column of FILE that says which instances belong together, such as pictures "
                "of a patient: intervals of the measures allow for it."
            ),
        ),
        Option(
            "Hierarchy",
            "--hierarchy",
            type=_FILE,
            metavar="EDGES",
            help=(
                "Add the hierarchical measures. Lines of 'parent child', or CSV with the columns "
                "parent, child and optionally weight."
            ),
        ),
        *_HIERARCHICAL,
        Option(
            "Answers",
            "--run",
            "runs",
            multiple=True,
            metavar="ID",
            help=(
                "In place of FILE, evaluate the answers that this run recorded. Runs that are "
                "named together are evaluated on the labels of all of them. Repeatable."
            ),
        ),
        Option(
            "Answers",
            "--labels",
            default="outputs,expectations",
            metavar="FOUND,TRUE",
            help=(
                "Where the run holds labels, as lists, JSON lists or text with commas: of traces "
                "outputs and expectations, or keys of them such as outputs.topics; of a table "
                "two columns."
            ),
        ),
        Option(
            "Answers",
            "--table",
            metavar="PATH",
            help=(
                "Read this table of the run. Default: its traces, or what mlflow.models.evaluate "
                "wrote."
            ),
        ),
        Option(
            "Answers",
            "--instance-by",
            metavar="NAME",
            help="The input, tag or column that says which question an answer is to.",
        ),
        Option(
            "Run",
            "-n",
            "--experiment-name",
            metavar="NAME",
            help=(
                "Write to this experiment; it is made if there is none. Default: as MLflow is "
                "set; with --run, that of the run."
            ),
        ),
        Option(
            "Run",
            "--run-id",
            metavar="ID",
            help="Write to this run: one of yours, or one that was interrupted.",
        ),
        Option(
            "Engine",
            "--engine",
            type=click.Choice(["process", "spark"]),
            default="process",
            is_eager=True,
            help="Evaluate in this process, or on Spark, which needs the extra spark.",
        ),
        Option(
            "Engine",
            "--master",
            metavar="URL",
            help=(
                "Spark's master, such as spark://HOST:7077, or sc://HOST of Spark Connect. "
                "Default: as Spark is set."
            ),
        ),
        *opt.output,
    ],
)
@click.argument("file", type=_Predictions(), required=False)
def evaluate(
    file: str | None,
    method: str | None,
    dataset: str | None,
    experiment_name: str | None,
    run_id: str | None,
    engine: str,
    master: str | None,
    runs: tuple[str, ...],
    labels: str,
    table: str | None,
    instance_by: str | None,
    format: str | None,
    filename: str | None,
    quiet: bool,
    **choices: Any,
) -> None:
    """Evaluate predictions made elsewhere, and log them as a run.

    FILE holds the truth and the predictions. It is read in blocks and may be larger than memory. If
    a row is broken, the error names its line and nothing is logged.

    \b
    CSV, parquet   one row per instance; for each label a column true_LABEL (0 or
                   1) with score_LABEL, pred_LABEL (0 or 1) or both; optionally
                   fold
                   one label of several classes: columns true and pred with
                   classes, score_CLASS for each, or score for the second of two
    npz            matrices (instances x labels) y_true with y_score, y_pred or
                   both; optionally label_names, folds; of one label a vector
                   parquet also with lists of labels: true with scored and score
                   (the labels that have scores, and these), pred, or both
    sparse         with --truth: LABEL:SCORE pairs, one line per instance, or CSR
                   of scipy.sparse.save_npz; --truth likewise, or a data file of
                   the XMC repository or svmlight (LABEL,LABEL FEATURE:VALUE)
    plain text     with --truth and --hierarchy: one line per instance, its
                   classes separated by spaces, as HEMKit reads them
    on Spark       a folder of parquet files with these columns, or its URL

    \b
    Examples:
      mleval evaluate predictions.csv --method BR --dataset yeast -n mystudy
      mleval evaluate predicted.txt --truth true.txt --hierarchy edges.txt \\
          --count-root --method BR --dataset news -n mystudy
      mleval evaluate predictions/ --engine spark --master spark://host:7077 \\
          --method BR --dataset clicks -n mystudy
      mleval evaluate --run RUN_A --run RUN_B --labels outputs,expectations.topics

    With --run, FILE is left out: the answers of runs of mlflow.genai.evaluate, or in their tables,
    are evaluated as label sets. Each evaluation becomes a child of its run; the same again takes
    its place.
    """
    from mlflow_mleval.files.evaluate_file import evaluate_file
    from mlflow_mleval.files.evaluate_spark import evaluate_with_spark
    from mlflow_mleval.files.predictions import open_predictions
    from mlflow_mleval.report.content.listings import evaluation_document
    from mlflow_mleval.training.log_evaluation import log_evaluation

    chosen = opt.chosen_format(format, filename)
    if choices["hierarchy"] is None and (
        wanting := [o.opts[0] for o in _HIERARCHICAL if choices[o.name] is not None]
    ):
        raise click.UsageError(f"--hierarchy must be given with {wanting[0]}.")
    given = {name: value for name, value in choices.items() if value not in (None, ())}
    typed = flags(click.get_current_context(), typed=True)
    unfit = _FOR_FILES if runs else ("labels", "table", "instance_by")
    if wrong := [flag for name, flag in typed.items() if name in unfit]:
        raise click.UsageError(
            f"{wrong[0]} must be left out {'with' if runs else 'without'} --run."
        )
    if bool(file) == bool(runs):
        raise click.UsageError(
            "give either FILE or --run, not both."
            if runs
            else "FILE is missing, or --run in its place."
        )
    if runs:
        where = {"table": table, "instance_by": instance_by, "method": method, "dataset": dataset}
        _evaluate_runs(runs, labels, given | where, experiment_name, chosen, filename, quiet)
        return
    if lacking := [
        flag for flag, value in (("--method", method), ("--dataset", dataset)) if value is None
    ]:
        raise click.UsageError(f"Missing option '{lacking[0]}'.")
    notes: list[str] = []
    if engine == "spark":
        if apart := [
            name for name in ("truth", "train_labels", "cluster", "probabilities") if name in given
        ]:
            raise click.UsageError(
                f"{typed[apart[0]]} must be left out with --engine spark, which lacks it."
            )
        ev, ignored = evaluate_with_spark(
            file, master=master, progress=sys.stderr.isatty() and not quiet, **given
        )
    elif master is not None:
        raise click.UsageError("--master must go with --engine spark.")
    else:
        with progress("evaluating", quiet) as step:
            ev = evaluate_file(file, **given, progress=step, say=notes.append)
        ignored = () if "truth" in given else open_predictions(file).ignored
    if "threshold" in given and ev.threshold is None:
        raise click.UsageError(
            f"--threshold: {file!r} has predictions, which need none. Leave it out."
        )
    say("logging …", quiet)
    run = log_evaluation(
        ev, method=method, dataset=dataset, run_id=run_id, experiment_name=experiment_name
    )
    ignored = [name for name in ignored if name != choices["cluster"]]
    if ignored:
        notes.append(
            f"not used, because they hold neither truth nor predictions: {', '.join(ignored)}"
        )
    shown = evaluation_document(ev, {"method": method, "dataset": dataset, "run_id": run}, notes)
    write(shown.render(chosen, width()), filename, quiet)


def _evaluate_runs(
    runs: tuple[str, ...],
    labels: str,
    options: dict[str, Any],
    experiment_name: str | None,
    format: str,
    filename: str | None,
    quiet: bool,
) -> None:
    """Evaluate the answers of runs as label sets, log each beside its run, and write what came
    out.
    """
    from mlflow_mleval.files.predictions import read_hierarchy
    from mlflow_mleval.report.content.listings import evaluations_document
    from mlflow_mleval.training.evaluate_answers import evaluate_answers

    predicted, _, expected = labels.partition(",")
    if not (predicted.strip() and expected.strip()):
        raise click.UsageError(
            f"--labels: {labels!r} is not FOUND,TRUE, such as outputs,expectations."
        )
    if options.get("hierarchy") is not None:
        options["hierarchy"] = read_hierarchy(options["hierarchy"])
    with progress("reading answers", quiet, unit="runs") as step:
        made = evaluate_answers(
            runs,
            predicted.strip(),
            expected.strip(),
            experiment_name=experiment_name,
            progress=step,
            **options,
        )
    told = [
        (
            {
                "method": e.method,
                "dataset": e.dataset,
                "run_id": e.run_id,
                "answers_of": e.source,
                "status": e.status,
            },
            e,
        )
        for e in made
    ]
    shown = evaluations_document([(e.evaluation, about, e.notes) for about, e in told])
    write(shown.render(format, width()), filename, quiet)
