"""Whatever is called in whatever order, the saver answers as the reference does.

`PARITY_EXAMPLES` in the environment sets how many sequences of calls are tried on each wiring.
"""

from __future__ import annotations

import os
from contextlib import AsyncExitStack

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer

from langgraph.checkpoint.kafka import aes_cipher
from tests.wirings import EVERY_WAY, Form, Savers, Store

from .commands import Command, commands
from .parity import Parity

EXAMPLES = int(os.environ.get("PARITY_EXAMPLES", "15"))
PARITY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    # Finding the smallest failure takes minutes against real servers; the calls are shown as found.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(max(120, EXAMPLES * 4)),
]


@pytest.mark.parametrize("way", EVERY_WAY)
@PARITY
@given(calls=commands)
async def test_every_answer_equals_the_references(
    savers: Savers, way: tuple[Store, Form], calls: list[Command]
) -> None:
    """Any calls, with cold memories and lost views between them, are answered as by the model.

    Each answer also has to be what another saver on the same store gives.
    """
    store, form = way
    first = await savers.shared(store, form)
    other = None
    if store is not Store.SQLITE_MEMORY:
        other = await savers.shared(store, Form.AWAITED if form is Form.TWIN else Form.TWIN)
    parity = Parity(first, other, is_alone=False)
    for call in calls:
        await parity.run(call)
    await parity.sweep()


@pytest.mark.parametrize("form", [Form.AWAITED, Form.TWIN], ids=lambda form: form.value)
@PARITY
@given(calls=commands)
async def test_an_empty_store_holds_what_the_reference_holds(
    savers: Savers, form: Form, calls: list[Command]
) -> None:
    """The same in a store that holds nothing else, so that listings of everything are compared."""
    async with AsyncExitStack() as stack:
        parity = Parity(await savers.alone(Store.SQLITE_MEMORY, form, stack), None, is_alone=True)
        for call in calls:
            await parity.run(call)
        await parity.sweep()


@PARITY
@given(calls=commands)
async def test_an_encrypted_store_holds_what_the_reference_holds(
    savers: Savers, calls: list[Command]
) -> None:
    """Nor does encryption change any answer, with the metadata sealed too."""
    serde = EncryptedSerializer(aes_cipher(b"k" * 32))
    async with AsyncExitStack() as stack:
        chosen = {"serde": serde, "seal_metadata": True}
        caller = await savers.alone(Store.SQLITE_MEMORY, Form.AWAITED, stack, **chosen)
        parity = Parity(caller, None, is_alone=True)
        for call in calls:
            await parity.run(call)
        await parity.sweep()
