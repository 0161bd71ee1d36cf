"""The command `mleval evaluate`: a file of predictions into a run."""

from __future__ import annotations

from typing import Any

import click

from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.output import one_line_errors, progress, say, width, write

_FILE = click.Path(exists=True, dir_okay=False)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--method", required=True, metavar="NAME", help="What made the predictions.")
@click.option("--dataset", required=True, metavar="NAME", help="What they were made on.")
@click.option("--truth", type=_FILE, metavar="FILE", help="Lines of true classes; FILE then has lines of predicted ones.")
@click.option("--hierarchy", type=_FILE, metavar="EDGES", help="Add the hierarchical measures. Lines of 'parent child', or CSV "
              "with the columns parent, child and maybe weight.")
@click.option("--threshold", type=float, help="Predict the labels with at least this score, where FILE has no predictions. "
              "Default: 0.5.")
@click.option("--conventions", type=click.Choice(["sklearn", "mulan"]), help="What empty sets and ties count. Default: sklearn.")
@click.option("--max-distance", type=float, help="Hierarchy: cost of a class without a partner (gie, mgia). Default: 5.")
@click.option("--lca", type=click.Choice(["extended", "minimal"]), help="Hierarchy: graphs of the LCA measures.")
@click.option("--lca-max-distance", type=float, help="Hierarchy: classes farther apart meet in a dummy ancestor.")
@click.option("--count-root", is_flag=True, default=None, help="Hierarchy: count the virtual root, as HEMKit does.")
@click.option("-n", "--experiment-name", metavar="NAME", help="Experiment to write to; made if there is none. Default: MLflow's.")
@click.option("--run-id", metavar="ID", help="Write to this run: a run of yours, or one that was interrupted.")
@opt.output
@one_line_errors
def evaluate(
    file: str, method: str, dataset: str, experiment_name: str | None, run_id: str | None, format: str | None,
    filename: str | None, quiet: bool, **choices: Any,
) -> None:
    """Evaluate predictions that were made elsewhere, and log them as a run.

    FILE has the truth and the predictions. It is read in blocks and may be larger than memory. If a row is broken, its line is
    named and nothing is logged.

    \b
    CSV, parquet   one row an instance; for each label a column true_LABEL (0 or 1) with score_LABEL, pred_LABEL (0 or 1) or
                   both; fold where there are folds
    npz            matrices y_true and y_score, y_pred or both (instances x labels); maybe label_names, folds
    plain text     with --truth and --hierarchy: the classes of one instance a line, separated by spaces, as HEMKit reads them

    \b
    Examples: mleval evaluate predictions.csv --method BR --dataset yeast -n mystudy
              mleval evaluate predicted.txt --truth true.txt --hierarchy edges.txt --count-root --method A --dataset news
    """
    from mlflow_mleval.files.evaluate_file import evaluate_file
    from mlflow_mleval.files.predictions import open_predictions
    from mlflow_mleval.measures.hierarchical import OPTIONS
    from mlflow_mleval.report.listings import render_evaluation
    from mlflow_mleval.training.log_evaluation import log_evaluation

    chosen = opt.chosen_format(format, filename)
    if choices["hierarchy"] is None and (wanting := [name for name in ("truth", *OPTIONS) if choices.get(name) is not None]):
        raise click.UsageError(f"--hierarchy must be given with --{wanting[0].replace('_', '-')}.")
    given = {name: value for name, value in choices.items() if value is not None}
    with progress("evaluating", quiet) as step:
        ev = evaluate_file(file, **given, progress=step)
    say("logging …", quiet)
    run = log_evaluation(ev, method=method, dataset=dataset, run_id=run_id, experiment_name=experiment_name)
    ignored = () if "truth" in given else open_predictions(file).ignored
    notes = [f"not used, because they hold neither truth nor predictions: {', '.join(ignored)}"] if ignored else []
    write(render_evaluation(ev, {"method": method, "dataset": dataset, "run_id": run}, notes, chosen, width()), filename, quiet)
