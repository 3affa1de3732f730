"""The ports' contracts as abstract suites, and each adapter's subclass of them."""

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("log_suite", "log_append", "log_read", "log_loss"))
)
