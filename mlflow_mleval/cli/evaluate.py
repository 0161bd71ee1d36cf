"""The command `mleval evaluate`: a file of predictions into a run."""

from __future__ import annotations

from typing import Any

import click

from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.output import one_line_errors, progress, say, width, write

_FILE = click.Path(exists=True, dir_okay=False)
_EVALUATION = opt.Group(
    "Evaluation",
    click.Option(["--method"], required=True, metavar="NAME", help="What made the predictions."),
    click.Option(["--dataset"], required=True, metavar="NAME", help="What they were made on."),
    click.Option(["--threshold"], type=float, metavar="NUMBER",
                 help="Predict the labels with at least this score, if FILE has scores only. Default: 0.5."),
    click.Option(["--conventions"], type=click.Choice(["sklearn", "mulan"]),
                 help="How empty sets and ties count. Default: sklearn."),
)  # fmt: skip
_HIERARCHY = opt.Group(
    "Hierarchy",
    click.Option(["--hierarchy"], type=_FILE, metavar="EDGES", help="Add the hierarchical measures. Lines of 'parent child', or "
                 "CSV with the columns parent, child and optionally weight."),
)  # fmt: skip
_WITH_HIERARCHY = opt.Group(
    "Hierarchy",
    click.Option(["--truth"], type=_FILE, metavar="FILE", help="Lines of true classes; FILE then has lines of predicted ones."),
    click.Option(["--max-distance"], type=float, metavar="NUMBER",
                 help="Cost of a class without a partner (gie, mgia). Default: 5."),
    click.Option(["--lca"], type=click.Choice(["extended", "minimal"]), help="Graphs of the LCA measures. Default: extended."),
    click.Option(["--lca-max-distance"], type=float, metavar="NUMBER",
                 help="Classes farther apart than this meet in a dummy ancestor."),
    click.Option(["--count-root"], is_flag=True, default=None, help="Count the virtual root, as HEMKit does."),
)  # fmt: skip
_RUN = opt.Group(
    "Run",
    click.Option(["-n", "--experiment-name"], metavar="NAME", help="Write to this experiment; it is made if there is none. "
                 "Default: as MLflow is set."),
    click.Option(["--run-id"], metavar="ID", help="Write to this run: one of yours, or one that was interrupted."),
)  # fmt: skip


@click.command(cls=opt.Command, groups=(_EVALUATION, _HIERARCHY, _WITH_HIERARCHY, _RUN, opt.output))
@click.argument("file", type=_FILE)
@one_line_errors
def evaluate(
    file: str, method: str, dataset: str, experiment_name: str | None, run_id: str | None, format: str | None,
    filename: str | None, quiet: bool, **choices: Any,
) -> None:
    """Evaluate predictions made elsewhere, and log them as a run.

    FILE holds the truth and the predictions. It is read in blocks and may be larger than memory. If a row is broken, the error
    names its line and nothing is logged.

    \b
    CSV, parquet   one row per instance; for each label a column true_LABEL (0 or
                   1) with score_LABEL, pred_LABEL (0 or 1) or both; optionally
                   fold
    npz            matrices (instances x labels) y_true with y_score, y_pred or
                   both; optionally label_names, folds
    plain text     with --truth and --hierarchy: one line per instance, its
                   classes separated by spaces, as HEMKit reads them

    \b
    Examples:
      mleval evaluate predictions.csv --method BR --dataset yeast -n mystudy
      mleval evaluate predicted.txt --truth true.txt --hierarchy edges.txt \\
          --count-root --method BR --dataset news -n mystudy
    """
    from mlflow_mleval.files.evaluate_file import evaluate_file
    from mlflow_mleval.files.predictions import open_predictions
    from mlflow_mleval.report.content.listings import evaluation_document
    from mlflow_mleval.training.log_evaluation import log_evaluation

    chosen = opt.chosen_format(format, filename)
    if choices["hierarchy"] is None and (wanting := [name for name in _WITH_HIERARCHY.names if choices[name] is not None]):
        raise click.UsageError(f"--hierarchy must be given with --{wanting[0].replace('_', '-')}.")
    given = {name: value for name, value in choices.items() if value is not None}
    with progress("evaluating", quiet) as step:
        ev = evaluate_file(file, **given, progress=step)
    if "threshold" in given and ev.threshold is None:
        raise click.UsageError(f"--threshold: {file!r} has predictions, which need none. Leave it out.")
    say("logging …", quiet)
    run = log_evaluation(ev, method=method, dataset=dataset, run_id=run_id, experiment_name=experiment_name)
    ignored = () if "truth" in given else open_predictions(file).ignored
    notes = [f"not used, because they hold neither truth nor predictions: {', '.join(ignored)}"] if ignored else []
    shown = evaluation_document(ev, {"method": method, "dataset": dataset, "run_id": run}, notes)
    write(shown.render(chosen, width()), filename, quiet)
