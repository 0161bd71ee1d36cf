"""The page /mleval/ on an MLflow server: compare the runs that a member may see, live."""
