"""What the measures of a document are; no result is needed to say it, so that a ranking loads
nothing of training.
"""

from collections.abc import Mapping

from mlflow_mleval.measures.registry import MEASURES
from mlflow_mleval.report import document as doc
from mlflow_mleval.report.document import PAGE, Column, Table
from mlflow_mleval.report.numerals import ARROWS


def definitions(directions: Mapping[str, str]) -> Table:
    """What measures are, each with its direction; those that the registry lacks were declared."""
    known = [MEASURES.get(m) for m in directions]
    unknown = "not known here; its direction was declared by the user"
    columns = [
        doc.names("measure", directions),
        Column("better", [ARROWS[direction] for direction in directions.values()], "^"),
        Column("what it is", [m.summary if m else unknown for m in known], "wrap"),
        Column("after", [m.source if m else "" for m in known], "wrap"),
    ]
    return Table(columns, title="What the measures are", folded=True, depth=PAGE)
