"""Results, predictions and tables on disk, in and out; no mlflow."""
