"""AsyncKafkaSaver, where LangGraph's checkpointers keep their async class."""

from saver.aio import AsyncKafkaSaver

__all__ = ["AsyncKafkaSaver"]
