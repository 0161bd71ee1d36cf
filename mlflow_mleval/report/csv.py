"""A document as CSV: its main table, unrounded; the others lie beside a report."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pandas as pd

from mlflow_mleval.report.text import csv_cell

if TYPE_CHECKING:
    from mlflow_mleval.report.document import Document


def render(document: Document, width: int = 100) -> str:
    """The main table; `width` changes nothing."""
    return to_csv(document.frames()[document.main])


def to_csv(frame: pd.DataFrame) -> str:
    """A frame as CSV (RFC 4180: commas, CRLF, quotes doubled), every cell escaped."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([csv_cell(str(name)) for name in frame.columns])
    plain = frame.astype(object).where(frame.notna(), None)
    writer.writerows([csv_cell(value) for value in row] for row in plain.itertuples(index=False))
    return out.getvalue()
