"""A saver that encrypts, in each form on each wiring."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.wirings import EVERY_WAY, Caller, Savers

from .sealing import AES


@pytest_asyncio.fixture(loop_scope="session", scope="module", params=EVERY_WAY)
async def sealed(request: pytest.FixtureRequest, savers: Savers) -> AsyncIterator[Caller]:
    """An encrypting saver on a store that only these tests use, in each form on each wiring."""
    store, form = request.param
    async with AsyncExitStack() as stack:
        yield await savers.alone(store, form, stack, serde=AES)
