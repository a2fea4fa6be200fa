"""Notice that files changed, whoever changed them: the bot in this kernel, or an owner in another process."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["Watch"]


class Watch:
    """Calls ``changed`` within ``every`` seconds after one of ``paths`` appeared, changed or went.

    A look is one ``stat`` per path; nothing is sent while nothing changes, so an idle kernel stays idle for a hub
    that culls.
    """

    def __init__(self, paths: Sequence[Path], changed: Callable[[], None], *, every: float = 1.0) -> None:
        self._paths = tuple(paths)
        self._changed = changed
        self._every = every
        self._stop = threading.Event()
        self._seen = self._look()
        threading.Thread(target=self._watch, name="rightlab-watch", daemon=True).start()

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_mark(path) for path in self._paths]

    def _watch(self) -> None:
        while not self._stop.wait(self._every):
            now = self._look()
            if now != self._seen:
                self._seen = now
                self._changed()

    def close(self) -> None:
        self._stop.set()


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
