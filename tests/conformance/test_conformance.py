"""LangGraph's own conformance suite for checkpointers, in full, on every wiring."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.conformance.report import CapabilityReport
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langgraph.checkpoint.kafka import aes_cipher
from tests.wirings import EVERY_STORE, Form, Savers, Store

from .reference import ReferenceSaver

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVERYTHING = {capability.value for capability in Capability}


def check(report: CapabilityReport) -> None:
    """Every capability that the suite knows is detected and passed, and no test was skipped."""
    assert set(report.results) == EVERYTHING
    for name, result in report.results.items():
        assert result.detected, name
        assert result.passed, (name, result.failures)
        assert result.tests_passed, name
        assert not result.tests_skipped, name


@pytest.mark.parametrize("form", [Form.AWAITED, Form.TWIN], ids=lambda form: form.value)
@pytest.mark.parametrize("store", EVERY_STORE)
async def test_every_capability_conforms(savers: Savers, store: Store, form: Form) -> None:
    """The saver and its sync twin pass LangGraph's suite, optional capabilities included."""

    @checkpointer_test(name=f"{store.value}-{form.value}")
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[int]]:
        yield (await savers.shared(store, form)).saver

    check(await validate(saver))


@pytest.mark.parametrize("store", EVERY_STORE)
async def test_every_capability_conforms_encrypted(savers: Savers, store: Store) -> None:
    """So does a saver that encrypts all that it can, metadata too."""
    serde = EncryptedSerializer(aes_cipher(b"k" * 32))

    @checkpointer_test(name=f"{store.value}-encrypted")
    async def saver() -> AsyncGenerator[BaseCheckpointSaver[int]]:
        async with AsyncExitStack() as stack:
            given = {"serde": serde, "seal_metadata": True}
            yield (await savers.alone(store, Form.AWAITED, stack, **given)).saver

    check(await validate(saver))


async def test_the_reference_conforms() -> None:
    """The model that the parity tests compare with passes LangGraph's suite itself."""

    @checkpointer_test(name="reference")
    async def reference() -> AsyncGenerator[BaseCheckpointSaver[int]]:
        yield ReferenceSaver()

    check(await validate(reference))
