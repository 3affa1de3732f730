"""What the tests of the projector stand on: a log and a view in memory."""

from collections.abc import AsyncIterator

import pytest

from tests.projections import Ground, sqlite_ground


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    async with sqlite_ground() as opened:
        yield opened
