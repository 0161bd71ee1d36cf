"""Reads and writes the store: results into runs, runs into a Study. MLflow, which takes longer to
import than a ranking to make, is loaded when a store is asked: a table is read without it."""

from typing import TYPE_CHECKING

from mlflow_mleval.package import Later

if not TYPE_CHECKING:
    artifacts = Later("mlflow_mleval.store.artifacts")
    store = Later("mlflow_mleval.store.store")
