"""What a checkpointer gives to a graph, one idea per test, on every wiring.

Read in this order: `test_memory`, `test_checkpoints`, `test_snapshots`, `test_history`,
`test_interrupts`, `test_calls`, `test_time_travel`, `test_update_state`, `test_subgraphs`,
`test_restart`, `test_upkeep`, `test_changed_graphs`, `test_threads`, `test_serializers`.
"""
