"""The only layer that imports mlflow: results into runs, runs into a Study."""
