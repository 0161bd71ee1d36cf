"""Imported by nothing but the process from which those are forked that compute for the page: what
answers need is there when it is needed, and shared."""

import gc
import os

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

import pandas as pd
from mlflow.store.tracking.rest_store import RestStore  # noqa: F401

from mlflow_mleval.analysis.comparison import compare
from mlflow_mleval.report.content.study_report import document
from mlflow_mleval.server.answers import fragment
from mlflow_mleval.study import Study

frame = pd.DataFrame(
    {"dataset": ["d", "d", "e", "e"], "method": ["a", "b"] * 2, "f1": [0.5, 0.6, 0.2, 0.4]}
)
for section in document(compare(Study.from_frame(frame)), {}).sections:
    fragment(section)
gc.collect()
gc.freeze()  # what is imported stays shared with the processes that are forked
