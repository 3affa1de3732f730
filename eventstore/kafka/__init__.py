"""The log on Kafka."""
