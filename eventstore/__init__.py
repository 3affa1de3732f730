"""The log is the truth; this package knows Kafka and SQLite, and nothing of LangGraph."""
