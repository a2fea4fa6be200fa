"""Which files an import reads: what was named, and every ``.jsonl`` in the folders that were named."""

import contextlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from rightlab.errors import UsageError
from rightlab.usage.reading import clean

__all__ = ["Fault", "Found", "Source", "find_files"]


class Fault(dict[str, object]):
    """Something that could not be read: ``file``, ``line`` (from 1, None for a whole file) and ``error``."""

    def __init__(self, file: str, line: int | None, error: str) -> None:
        super().__init__(file=clean(file), line=line, error=clean(error))

    @property
    def file(self) -> str:
        return str(self["file"])

    @property
    def line(self) -> int | None:
        line = self["line"]
        return line if isinstance(line, int) else None

    @property
    def error(self) -> str:
        return str(self["error"])

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.error}" if self.line else f"{self.file}: {self.error}"


@dataclass(frozen=True)
class Source:
    """One file as it was when it was found; ``size`` in bytes. What is written later is left for next time."""

    path: str
    size: int
    mtime_ns: int
    inode: int


@dataclass
class Found:
    """Files in order of their paths, each once even where roots overlap, and what could not be looked into."""

    sources: list[Source] = field(default_factory=list)
    errors: list[Fault] = field(default_factory=list)


def find_files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Found:
    """Look for the files of ``paths``: files as named, folders searched to the bottom for ``.jsonl``.

    Links to folders inside a folder are not followed.

    Raises:
        UsageError: a path that does not exist, or that is neither a file nor a folder.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found = Found()
    seen: set[tuple[int, int]] = set()

    def add(path: str) -> None:
        try:
            status = os.stat(path)
        except OSError as error:
            found.errors.append(Fault(path, None, _reason(error)))
            return
        identity = (status.st_dev, status.st_ino)
        if stat.S_ISREG(status.st_mode) and identity not in seen:
            seen.add(identity)
            changed = status.st_mtime_ns
            if not path.endswith(".jsonl"):
                with contextlib.suppress(OSError):
                    # A database that is being written changes beside its file first.
                    changed = max(changed, os.stat(f"{path}-wal").st_mtime_ns)
            found.sources.append(Source(path, status.st_size, changed, status.st_ino))

    def cannot_enter(error: OSError) -> None:
        found.errors.append(Fault(str(error.filename), None, f"the folder cannot be read: {_reason(error)}"))

    for path in [os.path.abspath(os.path.expanduser(os.fspath(one))) for one in named]:
        if os.path.isdir(path):
            for folder, folders, names in os.walk(path, onerror=cannot_enter):
                folders.sort()
                for name in names:
                    if name.endswith(".jsonl"):
                        add(os.path.join(folder, name))
        elif os.path.isfile(path):
            add(path)
        elif os.path.exists(path):
            raise UsageError("neither a file nor a folder", where=path)
        else:
            raise UsageError("no such file or folder", where=path, fix="Check the path.")
    found.sources.sort(key=lambda source: source.path)
    return found


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)
