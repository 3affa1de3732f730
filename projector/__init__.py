"""Folds the log into a view that may be thrown away."""
