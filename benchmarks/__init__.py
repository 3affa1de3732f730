"""Benchmarks: this checkpointer beside LangGraph's own, on the same work in the same run.

`python -m benchmarks --help`. They print the machine and the settings, and they assert nothing.
"""
