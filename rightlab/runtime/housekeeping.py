"""What would only grow: leftovers of cut invocations, raw CLI output, closed rows of the inbox.

The owner of an agent clears up at its start and once an hour. Nothing here is needed for a turn to be right, so
trouble is a line in the log.
"""

import asyncio
import logging
import shutil
from datetime import timedelta
from pathlib import Path

from rightlab.clock import Clock
from rightlab.conversation import Inbox
from rightlab.errors import FencedOut, RightlabError
from rightlab.home import remove

__all__ = ["keep_house", "sweep_files", "trim_streams"]

log = logging.getLogger(__name__)

EVERY_SECONDS = 3600.0
INBOX_AGE = timedelta(days=30)
"""How long a closed row is kept; servers redeliver for a day at most."""
STREAM_FILES = 200
STREAM_BYTES = 200 * 1024 * 1024


async def keep_house(inbox: Inbox, streams: Path, clock: Clock) -> None:
    """Clear up now and every hour, until cancelled or until another owner has taken over."""
    while True:
        try:
            gone = await asyncio.to_thread(inbox.prune, clock.now() - INBOX_AGE)
            trimmed = await asyncio.to_thread(trim_streams, streams)
            if gone or trimmed:
                log.info("cleared up: %d closed updates, %d files of CLI output", gone, trimmed)
        except FencedOut:
            return
        except (OSError, RightlabError) as error:
            log.warning("not all could be cleared up: %s", error)
        await clock.sleep(EVERY_SECONDS)


def sweep_files(folder: Path) -> int:
    """Remove what invocations of a killed owner left in ``folder``; how many. Only for who holds the lease."""
    left = [path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()]
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    return len(left)


def trim_streams(folder: Path, *, files: int = STREAM_FILES, size: int = STREAM_BYTES) -> int:
    """Keep the newest ``files`` files of ``folder`` and of these at most ``size`` bytes; how many went."""
    found = []
    for path in folder.glob("*.ndjson*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        found.append((status.st_mtime_ns, path.name, status.st_size))
    kept = gone = 0
    for number, (_, name, length) in enumerate(sorted(found, reverse=True)):
        kept += length
        # The newest one stays whatever its size: it may be written right now.
        if number and (number >= files or kept > size):
            gone += remove(folder / name)
    return gone
