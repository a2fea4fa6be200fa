"""Imported rows outlive their files; a second import reads only what is new and changes nothing."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rightlab.errors import StoreError
from rightlab.usage import import_store, importing
from rightlab.usage.import_store import ImportStore
from rightlab.usage.importing import import_paths


def row(key: str, *, out: int = 5, session: str = "s", **more: Any) -> bytes:
    usage = {"input_tokens": 3, "output_tokens": out, "cache_read_input_tokens": 7}
    message = {"id": key, "model": "claude-sonnet-5-5", "usage": usage}
    frame = {"type": "assistant", "timestamp": "2026-11-30T10:00:00Z", "sessionId": session, "cwd": "/p"}
    return json.dumps({**frame, "version": "2.1.332", "message": message, **more}).encode() + b"\n"


def prompt(key: str) -> bytes:
    return json.dumps({"type": "user", "uuid": key, "message": {"content": "hello"}}).encode() + b"\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.jsonl").write_bytes(prompt("u1") + row("a1") + row("a1", out=9) + b"broken\n" + row("a2"))
    (root / "b.jsonl").write_bytes(row("a1", session="t") + row("b1", version="2.0.1"))
    return root


@pytest.fixture
def store(tmp_path: Path) -> ImportStore:
    return ImportStore(tmp_path / "store")


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_the_report_is_the_one_without_a_store(tree: Path, store: ImportStore) -> None:
    told = store.update(tree).report()
    assert told == import_paths(tree).report()
    assert (told["requests"], told["turns"], told["duplicates"]) == (3, 1, 2)
    assert len(told["errors"]) == len(told["notes"]) == 1


def test_a_second_import_opens_nothing_and_changes_nothing(
    tree: Path, store: ImportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.update(tree).report()
    before = everything(store.folder)
    read: list[Any] = []
    real = importing.read_parts
    monkeypatch.setattr(
        importing, "read_parts", lambda parts, **more: read.extend(parts) or real(parts, **more)
    )
    assert store.update(tree).report() == first
    assert read == []
    assert everything(store.folder) == before


def test_only_what_was_appended_is_read(
    tree: Path, store: ImportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.update(tree)
    path = tree / "a.jsonl"
    size = path.stat().st_size
    with path.open("ab") as stream:
        stream.write(row("a3") + b"also broken\n" + row("a2", out=50) + prompt("u2"))
    parts: list[Any] = []
    real = importing.read_parts
    monkeypatch.setattr(
        importing, "read_parts", lambda some, **more: parts.extend(some) or real(some, **more)
    )
    told = store.update(tree).report()
    assert [(part.path, part.start) for part in parts] == [(str(path), size)]
    assert told == import_paths(tree).report()
    assert [error.line for error in told["errors"]] == [4, 7]
    assert told == store.update(tree).report()


def test_a_half_written_line_is_read_when_it_is_whole(tree: Path, store: ImportStore) -> None:
    path = tree / "a.jsonl"
    line = row("a3")
    with path.open("ab") as stream:
        stream.write(line[:40])
    told = store.update(tree).report()
    assert told["errors"][-1].line == 6
    assert "cut off" in told["errors"][-1].error
    assert store.update(tree).report() == told
    with path.open("ab") as stream:
        stream.write(line[40:])
    told = store.update(tree).report()
    assert told == import_paths(tree).report()
    assert told["requests"] == 4
    assert len(told["errors"]) == 1


def test_pain_CU721_CU609_CU425_basicmemory1527_rows_outlive_their_files(
    tree: Path, store: ImportStore
) -> None:
    first = store.update(tree).report()
    (tree / "b.jsonl").unlink()
    told = store.update(tree).report()
    assert told["files"] == 1
    for key in ("requests", "turns", "duplicates", "totals", "by_day", "lines"):
        assert told[key] == first[key]
    assert "1 other files told, 1 of which are gone" in told["notes"][-1]
    shutil.rmtree(tree)
    assert store.load().report()["totals"] == first["totals"]


def test_a_file_that_became_another_is_read_anew_and_loses_nothing(tree: Path, store: ImportStore) -> None:
    store.update(tree)
    (tree / "a.jsonl").write_bytes(row("new1") + row("new2"))
    told = store.update(tree).report()
    assert told["requests"] == 5
    assert told["errors"] == []
    longer = row("other1", session="a long name of a session") * 40
    (tree / "a.jsonl").write_bytes(longer)
    assert store.update(tree).report()["requests"] == 6


def test_a_touched_or_moved_file_changes_no_sum(tree: Path, store: ImportStore) -> None:
    first = store.update(tree).report()
    os.utime(tree / "a.jsonl", (1, 1))
    assert store.update(tree).report() == first
    (tree / "a.jsonl").rename(tree / "c.jsonl")
    told = store.update(tree).report()
    assert (told["requests"], told["totals"]) == (first["requests"], first["totals"])


def test_trees_add_up(tree: Path, store: ImportStore, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "z.jsonl").write_bytes(row("z1") + row("a1"))
    store.update(tree)
    told = store.update(other).report()
    both = import_paths([tree, other]).report()
    assert (told["requests"], told["totals"], told["duplicates"]) == (
        both["requests"], both["totals"], both["duplicates"],
    )  # fmt: skip


def test_a_crash_before_the_state_was_written_costs_only_time(
    tree: Path, store: ImportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: ImportStore, into: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ImportStore, "_save", crash)
        with pytest.raises(KeyboardInterrupt):
            store.update(tree)
    assert len(list(store.folder.glob("segment-*"))) == 1
    assert store.update(tree).report() == import_paths(tree).report()


def test_many_segments_become_one(tree: Path, store: ImportStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_store, "MANY", 3)
    for number in range(8):
        (tree / f"n{number}.jsonl").write_bytes(row(f"n{number}", session="a\ud800b") + prompt(f"p{number}"))
        store.update(tree)
        assert len(list(store.folder.glob("segment-*"))) <= 3
    assert store.load().requests == import_paths(tree).requests
    assert store.update(tree).report() == import_paths(tree).report()


@pytest.mark.parametrize(
    "data", [b"not json", b'{"version": 99, "files": []}', b'{"version": 1, "files": [1]}']
)
def test_a_store_that_cannot_be_read_is_one_clear_error(tree: Path, store: ImportStore, data: bytes) -> None:
    store.update(tree)
    store.state_path.write_bytes(data)
    with pytest.raises(StoreError):
        store.update(tree)


def test_a_broken_segment_is_named(tree: Path, store: ImportStore) -> None:
    store.update(tree)
    (path,) = store.folder.glob("segment-*")
    path.write_bytes(b"PAR1")
    with pytest.raises(StoreError, match=path.name):
        store.update(tree)


def test_a_file_that_could_not_be_read_is_tried_again(
    tree: Path, store: ImportStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rightlab.usage import reading

    def closed(*args: Any, **more: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(reading, "open", closed, raising=False)
        told = store.update(tree).report()
    assert [(error.line, error.error) for error in told["errors"]] == [(None, "permission denied")] * 2
    assert store.update(tree).report() == import_paths(tree).report()
