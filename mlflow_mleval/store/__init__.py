"""Reads and writes the store: results into runs, runs into a Study.

A table of results is read without MLflow, which takes longer to import than a ranking to make: what
asks a store loads when a store is asked.
"""

from typing import TYPE_CHECKING

from mlflow_mleval.package import Later

if not TYPE_CHECKING:
    artifacts = Later("mlflow_mleval.store.artifacts")
    store = Later("mlflow_mleval.store.store")
