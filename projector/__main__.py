"""`python -m projector …` is `langgraph-kafka projector …`."""

import sys
from importlib import import_module

# By name: the facade stands above this package and assembles the command.
import_module("langgraph.checkpoint.kafka.cli").main(["projector", *sys.argv[1:]])
