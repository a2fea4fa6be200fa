"""Parts of files, read by several processes.

The workers are started by command and fed through pipes: forking would copy a kernel with all its threads,
and the ways of ``multiprocessing`` run a script without a main guard once more.
"""

import contextlib
import gc
import marshal
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rightlab.usage.reading import read_part

__all__ = ["Part", "read_parts", "split"]

PART = 32 * 1024 * 1024
"""About the size of a part of a long file, in bytes."""
ALONE = 24 * 1024 * 1024
"""Fewer bytes than this are read without a second process."""

Progress = Callable[[int], None]
"""Told the size of each part that is done, in bytes, from whichever thread."""


@dataclass(frozen=True)
class Part:
    """Bytes ``start`` to ``end`` of a file; ``start`` is the start of a line."""

    path: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def split(path: str, start: int, end: int) -> list[Part]:
    """The parts of a file between two places, cut at the ends of lines; at least one."""
    cuts = [start]
    with contextlib.suppress(OSError):
        if end - start > PART * 3 // 2:
            with open(path, "rb") as stream:
                while end - cuts[-1] > PART * 3 // 2:
                    stream.seek(cuts[-1] + PART)
                    while chunk := stream.readline(1 << 20):
                        if chunk.endswith(b"\n"):
                            break
                    if stream.tell() >= end or not chunk:
                        break
                    cuts.append(stream.tell())
    return [Part(path, at, until) for at, until in zip(cuts, [*cuts[1:], end], strict=True)]


def read_parts(
    parts: Sequence[Part], *, processes: int | None = None, progress: Progress | None = None
) -> list[dict[str, Any]]:
    """:func:`rightlab.usage.reading.read_part` of every part, in order.

    ``processes`` 1 reads here; None takes what the machine has when there is enough to read.
    """
    now = time.time()
    total = sum(part.size for part in parts)
    if processes is None:
        processes = 1 if total < ALONE else min(_cpus(), 8, len(parts))
    results: list[dict[str, Any] | None] = [None] * len(parts)
    shares: list[list[int]] = [[] for _ in range(max(1, processes))]
    loads = [0] * len(shares)
    for index in sorted(range(len(parts)), key=lambda at: -parts[at].size):
        least = loads.index(min(loads))
        shares[least].append(index)
        loads[least] += parts[index].size + 4096
    with contextlib.ExitStack() as stack:
        workers = [
            (share, stack.enter_context(_worker([parts[at] for at in share], now, progress)))
            for share in shares[1:]
            if share
        ]
        for at in shares[0]:
            results[at] = _read(parts[at], now, progress)
        for share, collect in workers:
            for at, told in zip(share, collect(), strict=False):
                results[at] = marshal.loads(told)
    # What a worker that died has not told is read here.
    return [
        _read(part, now, progress) if result is None else result
        for part, result in zip(parts, results, strict=True)
    ]


def _read(part: Part, now: float, progress: Progress | None) -> dict[str, Any]:
    result = read_part(part.path, part.start, part.end, now)
    if progress is not None:
        progress(part.size)
    return result


@contextlib.contextmanager
def _worker(parts: list[Part], now: float, progress: Progress | None) -> Iterator[Callable[[], list[bytes]]]:
    """A process that reads ``parts``; yields what waits for its answers, one for each part it got done."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rightlab.usage.workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONSAFEPATH": "1"},
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    output = process.stdout
    answers: list[bytes] = []

    def drain() -> None:
        for part in parts:
            size = int.from_bytes(output.read(8), "big")
            answer = output.read(size)
            if not size or len(answer) < size:
                return
            answers.append(answer)
            if progress is not None:
                progress(part.size)

    reader = threading.Thread(target=drain, name="usage-import", daemon=True)

    def collect() -> list[bytes]:
        reader.join()
        process.wait()
        return answers

    try:
        with contextlib.suppress(BrokenPipeError), process.stdin as stream:
            marshal.dump((now, [(part.path, part.start, part.end) for part in parts]), stream)
        reader.start()
        yield collect
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if reader.ident is not None:
            reader.join()
        output.close()


def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _serve() -> None:
    gc.disable()
    now, parts = marshal.load(sys.stdin.buffer)
    for path, start, end in parts:
        answer = marshal.dumps(read_part(path, start, end, now))
        sys.stdout.buffer.write(len(answer).to_bytes(8, "big") + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
