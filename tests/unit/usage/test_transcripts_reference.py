"""A Right Agent ``data.db``: read from a copy, also with the index stock SQLite does not know."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rightlab.usage.import_store import ImportStore
from rightlab.usage.importing import import_paths

COLUMNS = (
    "ts", "source", "session_uuid", "total_cost_usd", "num_turns", "input_tokens", "output_tokens",
    "cache_creation_tokens", "cache_read_tokens", "web_search_requests", "web_fetch_requests",
    "model_usage_json",
)  # fmt: skip
SONNET = "claude-sonnet-5-5"


def add(connection: sqlite3.Connection, **more: Any) -> None:
    row = dict.fromkeys(COLUMNS, 0) | {"ts": "2026-11-30T23:30:00Z", "source": "interactive"}
    row |= {
        "session_uuid": "s1",
        "total_cost_usd": 0.5,
        "num_turns": 3,
        "input_tokens": 10,
        "output_tokens": 20,
    }
    row |= {
        "cache_creation_tokens": 30,
        "cache_read_tokens": 40,
        "model_usage_json": json.dumps({SONNET: {}}),
    }
    row |= more
    marks = ", ".join("?" * len(COLUMNS))
    connection.execute(
        f"INSERT INTO usage_events ({', '.join(COLUMNS)}) VALUES ({marks})", [row[name] for name in COLUMNS]
    )
    connection.commit()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    path = tmp_path / "data.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"CREATE TABLE usage_events (id INTEGER PRIMARY KEY, {', '.join(COLUMNS)})")
    connection.execute("CREATE TABLE conversation_messages (content TEXT)")
    connection.execute("CREATE INDEX words ON conversation_messages (content)")
    add(connection)
    yield path, connection
    connection.close()


def spoil(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA writable_schema = ON")
    sql = "CREATE INDEX words ON conversation_messages USING fts (content)"
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'words'", (sql,))
    connection.commit()


def test_its_rows_are_invocations_at_its_own_cost(database: tuple[Path, sqlite3.Connection]) -> None:
    path, connection = database
    two = {
        SONNET: {"inputTokens": 1, "outputTokens": 2, "costUSD": 0.2},
        "claude-haiku-5-5": {"costUSD": 0.1},
    }
    add(connection, source="cron", model_usage_json=json.dumps(two), total_cost_usd=0.3)
    found = import_paths(path).report("Asia/Tokyo")
    assert (found["requests"], found["turns"], found["duplicates"], found["errors"]) == (3, 1, 0, [])
    assert found["totals"]["cost_usd"] == pytest.approx(0.8)
    assert found["by_model"]["claude-haiku-5-5"]["cost_usd"] == pytest.approx(0.1)
    assert found["totals"]["cache_read_tokens"] == 40
    assert list(found["by_day"]) == ["2026-12-01"]


def test_an_index_that_sqlite_refuses_does_not_hide_it_and_the_original_is_left_alone(
    database: tuple[Path, sqlite3.Connection],
) -> None:
    path, connection = database
    spoil(connection)
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        sqlite3.connect(path).execute("SELECT * FROM usage_events")
    beside = {one.name: hashlib.sha256(one.read_bytes()).digest() for one in path.parent.iterdir()}
    assert import_paths(path).report()["totals"]["cost_usd"] == 0.5
    assert {one.name: hashlib.sha256(one.read_bytes()).digest() for one in path.parent.iterdir()} == beside


def test_the_store_sees_what_is_added(database: tuple[Path, sqlite3.Connection], tmp_path: Path) -> None:
    path, connection = database
    store = ImportStore(tmp_path / "store")
    first = store.update(path).report()
    assert store.update(path).report() == first
    add(connection, ts="2026-12-01T00:00:00Z")
    told = store.update(path).report()
    assert told["totals"]["cost_usd"] == 1.0
    assert told == import_paths(path).report()


@pytest.mark.parametrize("more", [{"ts": "never"}, {"input_tokens": -5}, {"model_usage_json": "[1]"}])
def test_a_row_that_cannot_be_is_named(
    database: tuple[Path, sqlite3.Connection], more: dict[str, Any]
) -> None:
    path, connection = database
    add(connection, **more)
    found = import_paths(path).report()
    assert found["requests"] == 1
    assert [error.error.split(":")[0] for error in found["errors"]] == ["usage_events 2"]


def test_another_database_is_an_error_beside_the_rest(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE x (y)")
    connection.commit()
    connection.close()
    found = import_paths(tmp_path / "other.db").report()
    assert "usage_events" in found["errors"][0].error
