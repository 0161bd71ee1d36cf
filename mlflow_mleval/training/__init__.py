"""While training: evaluations into runs, by a call, a callback, an evaluator or autologging."""
