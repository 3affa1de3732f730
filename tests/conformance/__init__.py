"""Agreement with LangGraph: its own suite for checkpointers, and a reference model."""
