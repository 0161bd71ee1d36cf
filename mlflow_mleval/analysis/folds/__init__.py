"""What the folds of one dataset say: multivariate tests of pairs and of all methods, and what they
assume.
"""
