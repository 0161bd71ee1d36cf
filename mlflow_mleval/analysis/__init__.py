"""Tables in, results out: fusion, tests and their feasibility. No mlflow, no drawing."""
