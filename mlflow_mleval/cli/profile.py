"""`mleval profile`: losses between Hamming and subset 0/1, who is ahead where, and how sure that
is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from mlflow_mleval.cli import options as opt
from mlflow_mleval.cli.command import Command, arguments, in_flags
from mlflow_mleval.cli.output import provenance, say, width, write

_PROFILES = (
    opt.Option(
        "Profiles",
        "--family",
        type=click.Choice(["binomial", "polynomial"]),
        default="binomial",
        help=(
            "How the losses go from Hamming to subset 0/1: by k, the number of labels that have "
            "to be right together, or by the exponent α."
        ),
    ),
    opt.Option(
        "Profiles",
        "--kind",
        type=click.Choice(["hard", "soft"]),
        default="hard",
        help="Losses of the predicted label sets, or of the scores.",
    ),
    opt.Option(
        "Profiles",
        "--alpha",
        type=opt.PROBABILITY,
        default=0.05,
        help="Chance of any false claim along any profile.",
    ),
)


@click.command(
    cls=Command, params=[*opt.selection, *_PROFILES, *opt.protocol, opt.seed, *opt.output]
)
def profile(
    kind: str, format: str | None, filename: str | None, quiet: bool, **choices: Any
) -> None:
    """Compare loss profiles from Hamming to subset 0/1 loss.

    They show which method is better when few labels have to be right together, which when many, and
    where they cross: a method that is aware of how labels depend on each other loses little on the
    way. Runs that mleval logged carry their profiles. Folds tell where on the way one method is
    better for certain; with six datasets or more, pairs are tested over these too.

    \b
    Examples:
      mleval profile -n mystudy
      mleval profile -n mystudy --dataset yeast --family polynomial -o yeast.html
      mleval profile -n mystudy --method BR --method LP --output json
    """
    from mlflow_mleval.analysis.profile_comparison import compare_profiles
    from mlflow_mleval.report.content.profiles import document
    from mlflow_mleval.tracking.read_profiles import load_profiles

    chosen = opt.chosen_format(format, filename)
    say("reading runs …", quiet)
    profiles = load_profiles(kind, **arguments(choices, *opt.selection))
    profiles = replace(profiles, notes=tuple(map(in_flags, profiles.notes)))
    say(f"comparing {len(profiles.methods)} methods on {len(profiles.datasets)} datasets …", quiet)
    found = compare_profiles(profiles, **arguments(choices, *_PROFILES, *opt.protocol, opt.seed))
    ids = [
        run.run_id
        for run in profiles.runs.itertuples()
        if (run.dataset, run.method) in profiles.errors
    ]
    write(
        document(found, provenance(profiles.source, ids, found.options)).render(chosen, width()),
        filename,
        quiet,
    )
