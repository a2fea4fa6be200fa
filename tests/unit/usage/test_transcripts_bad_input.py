"""What is wrong in a transcript is counted and located, never fatal, never silently wrong."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightlab.usage import read_transcripts, reading, workers
from rightlab.usage.finding import Fault
from rightlab.usage.importing import import_paths
from rightlab.usage.reading import read_part

MODEL = "claude-sonnet-5-5"


def row(
    key: str = "m", *, out: Any = 5, inp: Any = 3, at: Any = "2026-11-30T10:00:00Z", **usage: Any
) -> bytes:
    counts = {"input_tokens": inp, "output_tokens": out, **usage}
    message = {"id": key, "model": MODEL, "usage": counts}
    frame = {"type": "assistant", "timestamp": at, "sessionId": "s", "cwd": "/p", "version": "2.1.332"}
    return json.dumps({**frame, "message": message}).encode()


def put(folder: Path, data: bytes, name: str = "s.jsonl") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def errors_of(path: Path) -> list[tuple[Any, str]]:
    return [(fault.line, fault.error) for fault in import_paths(path).faults()]


def test_a_corrupt_line_is_located_and_the_others_count(tmp_path: Path) -> None:
    path = put(
        tmp_path, b"\n".join([row("a"), b"", b'{"type": "assistant", ', b"[1]", b"7", row("b")]) + b"\n"
    )
    read = import_paths(tmp_path)
    found = read.report()
    assert (found["requests"], found["lines"]) == (2, 5)
    assert [(fault.file, fault.line) for fault in read.faults()] == [(str(path), n) for n in (3, 4, 5)]
    assert "not JSON" in read.faults()[0].error
    assert json.loads(json.dumps(found["errors"]))[0] == dict(read.faults()[0])
    frame, errors = read_transcripts(tmp_path)
    assert len(frame) == 2
    assert errors[0]["line"] == errors[0].line == 3


def test_a_truncated_last_line_is_located_and_a_whole_one_counts(tmp_path: Path) -> None:
    path = put(tmp_path, row("a") + b"\n" + row("b")[:-10])
    ((line, text),) = errors_of(path)
    assert line == 2
    assert "cut off" in text
    found = import_paths(path).report()
    assert (found["requests"], found["lines"]) == (1, 2)
    put(tmp_path, row("a") + b"\n" + row("b"))
    found = import_paths(path).report()
    assert (found["requests"], found["errors"], found["lines"]) == (2, [], 2)


def test_an_empty_file_is_counted_and_named(tmp_path: Path) -> None:
    path = put(tmp_path, b"")
    put(tmp_path, b"\n \n", "blank.jsonl")
    found = import_paths(tmp_path).report()
    assert (found["files"], found["lines"], found["errors"]) == (2, 0, [])
    assert found["notes"] == [f"{path}: an empty file"]


@pytest.mark.parametrize(
    ("data", "line", "word"),
    [
        (row("a") + b"\n" + row("caf\u00e9").replace(b"\\u00e9", b"\xe9") + b"\n", 2, "not UTF-8"),
        (b"\xff\xfe" + row("a").decode().encode("utf-16-le"), 1, "UTF-16"),
        (row("a") + b"\n" + b"\0" * 500 + b"\n", 2, "not JSON"),
        (row("a") + b"\n" + b"[" * 100_000 + b"\n", 2, "JSON"),
    ],
)
def test_wrong_encodings_and_holes_are_located(tmp_path: Path, data: bytes, line: int, word: str) -> None:
    ((found, text),) = errors_of(put(tmp_path, data))
    assert found == line
    assert word in text


def test_a_byte_order_mark_windows_ends_and_half_an_emoji_are_no_faults(tmp_path: Path) -> None:
    half = row("b").replace(b'"/p"', b'"/p\\ud83d"')
    put(tmp_path, b"\xef\xbb\xbf" + row("a") + b"\r\n" + half + b"\r\n")
    frame, errors = read_transcripts(tmp_path)
    assert errors == []
    assert len(frame) == 2


@pytest.mark.parametrize("bad", [-1, 10**12, 1e300, 1.5, "12", True, [1], {"a": 1}])
@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "cache_read_input_tokens"])
def test_counts_that_cannot_be_are_located_and_left_out(tmp_path: Path, name: str, bad: Any) -> None:
    path = put(tmp_path, row("a") + b"\n" + row("b", **{name: bad}) + b"\n")
    if name in ("input_tokens", "output_tokens"):
        spoilt = json.loads(row("b"))
        spoilt["message"]["usage"][name] = bad
        put(tmp_path, row("a") + b"\n" + json.dumps(spoilt).encode() + b"\n")
    ((line, text),) = errors_of(path)
    assert line == 2
    assert name in text
    found = import_paths(path).report()
    assert (found["requests"], found["totals"]["output_tokens"]) == (1, 5)


def test_negative_splits_of_the_cache_are_left_out_too(tmp_path: Path) -> None:
    split = {"ephemeral_5m_input_tokens": -5, "ephemeral_1h_input_tokens": 5}
    ((line, text),) = errors_of(put(tmp_path, row("a", cache_creation=split) + b"\n"))
    assert line == 1
    assert "ephemeral_5m" in text


def test_a_good_row_of_a_message_stands_in_for_its_bad_one(tmp_path: Path) -> None:
    path = put(tmp_path, row("a", out=-1) + b"\n" + row("a", out=9) + b"\n")
    found = import_paths(path).report()
    assert (found["requests"], found["duplicates"], found["totals"]["output_tokens"]) == (1, 0, 9)
    assert len(found["errors"]) == 1


@pytest.mark.parametrize("at", [None, "yesterday", 1796073726, "2026-13-45T00:00:00Z", ""])
def test_a_request_without_a_time_counts_in_no_day_and_is_located(tmp_path: Path, at: Any) -> None:
    path = put(tmp_path, row("a", at=at) + b"\n")
    found = import_paths(path).report()
    assert (found["requests"], found["by_day"]) == (1, {})
    assert found["errors"][0].line == 1
    assert any("no valid time" in note for note in found["notes"])
    frame, _ = read_transcripts(path)
    assert frame["ts"].isna().all()


@pytest.mark.parametrize(
    ("at", "word"), [("2099-01-01T00:00:00Z", "future"), ("1970-01-01T00:00:00Z", "before")]
)
def test_dates_that_cannot_be_are_located(tmp_path: Path, at: str, word: str) -> None:
    ((line, text),) = errors_of(put(tmp_path, row("a") + b"\n" + row("b", at=at) + b"\n"))
    assert line == 2
    assert word in text


def test_a_time_without_a_zone_is_utc_and_said_so(tmp_path: Path) -> None:
    path = put(tmp_path, row("a", at="2026-11-30T23:59:00") + b"\n")
    found = import_paths(path).report()
    assert list(found["by_day"]) == ["2026-11-30"]
    assert "zone" in found["errors"][0].error


def test_a_clock_that_went_back_is_noted_with_its_line(tmp_path: Path) -> None:
    rows = [row("a"), row("b", at="2026-11-30T09:30:00Z"), row("c", at="2026-11-30T05:00:00Z")]
    path = put(tmp_path, b"\n".join(rows) + b"\n")
    assert import_paths(path).report()["notes"] == [
        f"{path}: the clock went back by more than an hour at line 3"
    ]


def test_one_id_with_different_usage_is_told(tmp_path: Path) -> None:
    put(tmp_path, row("a", inp=3) + b"\n" + row("a", inp=900) + b"\n", "1.jsonl")
    put(tmp_path, row("b", out=1) + b"\n" + row("b", out=7) + b"\n", "2.jsonl")
    read = import_paths(tmp_path)
    assert any(note.startswith("1 requests are told with different") for note in read.report()["notes"])
    frame, _ = read_transcripts(tmp_path)
    assert frame.set_index("message_id")["usage_differs"].to_dict() == {"a": True, "b": False}
    assert frame.set_index("message_id")["input_tokens"].to_dict() == {"a": 900, "b": 3}


def test_rows_of_other_shapes_are_located(tmp_path: Path) -> None:
    base = json.loads(row("a"))
    shapes = [
        {**base, "message": "text"},
        {**base, "message": {"id": "x", "model": MODEL}},
        {**base, "message": {**base["message"], "id": "y", "model": None}},
        {"type": "user", "message": None, "uuid": "u"},
        {"type": ["assistant"]},
        {"type": "progress", "data": 3},
        {},
    ]
    path = put(tmp_path, b"".join(json.dumps(shape).encode() + b"\n" for shape in shapes))
    assert [line for line, _ in errors_of(path)] == [1, 2, 3, 4]
    totals = import_paths(path).report()["totals"]
    assert totals["cost_complete"] is False


def test_a_huge_line_is_skipped_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_LINE", 50_000)
    monkeypatch.setattr(reading, "_BLOCK", 4096)
    long = b'{"type": "user", "x": "' + b"y" * 300_000 + b'"}'
    path = put(tmp_path, b"\n".join([row("a"), long, row("b"), b"broken", row("c")]) + b"\n")
    read = import_paths(path)
    assert [(fault.line, "longer" in fault.error) for fault in read.faults()] == [(2, True), (4, False)]
    found = read.report()
    assert (found["requests"], found["lines"]) == (3, 5)


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_the_size_of_a_block_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    path = put(tmp_path, b"\n".join([row("a"), b"", b"nope", row("b")]) + b"\n" + row("c")[:-3])
    whole = read_part(str(path), 0, path.stat().st_size, 2e9)
    monkeypatch.setattr(reading, "_BLOCK", block)
    assert read_part(str(path), 0, path.stat().st_size, 2e9) == whole


def test_what_is_written_while_reading_is_left_for_the_next_time(tmp_path: Path) -> None:
    path = put(tmp_path, row("a") + b"\n")
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + row("b")[:20])
    told = read_part(str(path), 0, size, 2e9)
    assert (len(told["requests"]), told["cut"], told["offset"]) == (1, None, size)


def test_a_file_that_shrinks_or_vanishes_is_told(tmp_path: Path) -> None:
    path = put(tmp_path, row("a") + b"\n")
    told = read_part(str(path), 0, 10_000, 2e9)
    assert "shorter" in told["failure"]
    assert len(told["requests"]) == 1
    assert read_part(str(tmp_path / "gone"), 0, 10, 2e9)["failure"] == "no such file or directory"


def test_an_unreadable_folder_or_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, row("a") + b"\n")
    closed = tmp_path / "closed"
    closed.mkdir()
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(closed))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (tmp_path / "dangling.jsonl").symlink_to(tmp_path / "nothing")
    read = import_paths(tmp_path)
    told = {Path(fault.file).name: (fault.line, fault.error) for fault in read.faults()}
    assert told["closed"] == (None, "the folder cannot be read: permission denied")
    assert told["dangling.jsonl"][0] is None
    assert read.report()["requests"] == 1


def test_a_file_of_garbage_does_not_fill_the_report(tmp_path: Path) -> None:
    path = put(tmp_path, b"garbage\n" * 5000)
    faults = import_paths(path).faults()
    assert len(faults) == 1001
    assert faults[-1] == Fault(str(path), None, "4000 more errors of this file are not listed")


def test_several_processes_and_parts_of_files_tell_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1)
    for number in range(5):
        rows = [row(f"m{chance.randrange(400)}", out=chance.randrange(99)) for _ in range(300)]
        rows[chance.randrange(300)] = b"broken"
        put(tmp_path, b"\n".join(rows) + b"\n" + row("z")[:-9], f"{number}.jsonl")
    alone = import_paths(tmp_path, processes=1)
    monkeypatch.setattr(workers, "PART", 5000)
    seen: list[tuple[int, int, int]] = []
    together = import_paths(tmp_path, processes=3, progress=lambda *told: seen.append(told))
    assert together.report() == alone.report()
    assert together.requests == alone.requests
    assert seen[-1][0] == 5
    assert seen[-1][1] == seen[-1][2] == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_a_worker_that_dies_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        put(tmp_path, row(f"m{number}") + b"\n", f"{number}.jsonl")
    monkeypatch.setattr(workers.sys, "executable", "/bin/false")
    assert import_paths(tmp_path, processes=2).report()["requests"] == 4


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "message", "usage", "id", "model", "content", "timestamp", "data", "cache_creation",
                 "input_tokens", "server_tool_use", "isSidechain", "session_id", "modelUsage", "uuid"]
            ),
            inner | st.sampled_from(["assistant", "user", "progress", "result"]),
            max_size=6,
        ),
        max_leaves=25,
    )
)  # fmt: skip
def test_nothing_in_a_file_is_fatal(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    path = tmp_path_factory.mktemp("any") / "s.jsonl"
    path.write_bytes(json.dumps(value).encode() + b"\n" + row("good") + b"\n")
    found = import_paths(path).report()
    assert found["requests"] >= 1
    assert found["lines"] == 2
    assert all(entry["output_tokens"] >= 0 for entry in found["by_model"].values())
