"""Inputs that have broken checkpointers before, each with its one right value.

They come from public bug reports on LangGraph's checkpoint savers (the numbers in the docstrings,
B for reported and S for found by reading). Not here, and why:

| Cases | Reason |
|---|---|
| B14, B76, B77, the second half of B78 | expiry: not a feature yet |
| B33 | ownership of a thread by one writer: not offered; two writers are both accepted |
| B68, B69 | encryption: not a feature yet |
| B21, its second half | events of older formats: the golden files of the format |
| B32, B34 | processes that are killed: the tests of the killed writer |
| S23 | a broker with TLS or SASL: the tests of the log's security |
| S26 | a topic that would lose history: the tests of the topic |
"""
