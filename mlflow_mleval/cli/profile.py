"""`mleval profile`: losses between Hamming and subset 0/1, who is ahead where, and how sure that is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.output import in_flags, one_line_errors, provenance, say, width, write


@click.command()
@opt.selection
@click.option("--family", type=click.Choice(["binomial", "polynomial"]), default="binomial", show_default=True,
              help="How the losses go from Hamming to subset 0/1: by k, the number of labels that have to be right together, "
              "or by the exponent α.")
@click.option("--kind", type=click.Choice(["hard", "soft"]), default="hard", show_default=True,
              help="Losses of the predicted label sets, or of the scores.")
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True,
              help="Chance of any false claim along any profile.")
@opt.protocol
@opt.seed
@opt.output
@one_line_errors
def profile(
    family: str, kind: str, alpha: float, protocol: str | None, ratio: float | None, seed: int, format: str | None,
    filename: str | None, quiet: bool, **selection: Any,
) -> None:
    """Compare loss profiles: who is better when few labels have to be right together, who when many, and where they cross.

    A method that is aware of the dependence of labels loses little on the way from the Hamming loss to the subset 0/1 loss. Runs
    that mleval logged carry their profiles. Folds tell at which parameters one method is better for certain; with six datasets or
    more, pairs are tested over these too.

    \b
    Examples: mleval profile -n mystudy
              mleval profile -n mystudy --dataset yeast --family polynomial -o yeast.html
              mleval profile -n mystudy --method BR --method LP --output json
    """
    from mlflow_mleval.analysis.profile_comparison import compare_profiles
    from mlflow_mleval.report.over_profiles import render_profiles
    from mlflow_mleval.tracking.read_profiles import load_profiles

    chosen = opt.chosen_format(format, filename)
    say("reading runs …", quiet)
    profiles = load_profiles(kind, **opt.selected(selection))
    profiles = replace(profiles, notes=tuple(map(in_flags, profiles.notes)))
    say(f"comparing {len(profiles.methods)} methods on {len(profiles.datasets)} datasets …", quiet)
    found = compare_profiles(profiles, family=family, alpha=alpha, seed=seed, protocol=protocol, ratio=ratio)
    used = set(profiles.errors)
    ids = [run.run_id for run in profiles.runs.itertuples() if (run.dataset, run.method) in used]
    write(render_profiles(found, provenance(profiles.source, ids, found.options), chosen, width()), filename, quiet)
