"""LangGraph's contract over the log and its view; the only package that imports LangGraph."""
