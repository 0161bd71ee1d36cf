"""Callbacks that log how a model develops while it is trained: one module a framework, each
imported on first use.
"""
