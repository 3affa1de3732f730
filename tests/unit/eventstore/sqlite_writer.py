"""A process that appends numbered events to a log in a file and says when each is acknowledged.

`python -m tests.unit.eventstore.sqlite_writer <path> <name> <count> <at once>`
"""

import asyncio
import sys

from eventstore.sqlite import SqliteDatabase, SqliteEventLog
from tests.contracts.log_suite import writes_event


async def append(path: str, name: str, count: int, at_once: int) -> None:
    """Append `count` events of the thread `name`, each line of output an acknowledged number."""
    async with SqliteDatabase(path, timeout=25.0) as database:
        log = SqliteEventLog(database)
        await log.setup()
        for start in range(0, count, at_once):
            numbers = range(start, min(start + at_once, count))
            waiting = [log.append(writes_event(name, str(n), b"x" * (n % 700))) for n in numbers]
            for number, acknowledged in zip(numbers, waiting, strict=True):
                await acknowledged
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()
        await log.close()


if __name__ == "__main__":
    asyncio.run(append(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
