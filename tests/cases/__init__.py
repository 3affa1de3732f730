"""Inputs that have broken checkpointers before, each with its one right value.

They come from public bug reports on LangGraph's checkpoint savers (the numbers in the docstrings,
B for reported and S for found by reading). Not here, and why:

| Cases | Reason |
|---|---|
| B14, B76, B77, the second half of B78 | expiry: not a feature yet |
| B33 | ownership of a thread by one writer: not offered; two writers are both accepted |
| B68, B69 | encryption: not a feature yet |
| S23 | a broker with TLS or SASL; the settings are checked in the unit tests of their config |
| S26 | the log's own set-up refuses such a topic: the tests of the topic |
"""
