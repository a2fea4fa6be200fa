import sqlite3

import pytest

from rightlab.conversation import Sessions
from rightlab.errors import StoreError, UsageError
from rightlab.store import Store


def test_one_active_session_per_scope(sessions: Sessions, clock) -> None:
    sessions.open(5, 0, "a")
    sessions.open(5, 7, "b")
    sessions.open(5, 0, "c", label="work " * 30)
    assert sessions.active(5, 0).session_id == "c"
    assert sessions.active(5, 7).session_id == "b"
    assert sessions.active(6, 0) is None
    assert len(sessions.active(5, 0).label) <= 60
    assert [s.session_id for s in sessions.list(5, 0)] == ["c", "a"]


def test_switching_back_is_one_step(sessions: Sessions) -> None:
    sessions.open(5, 0, "a")
    sessions.open(5, 0, "b")
    assert sessions.activate("a").is_active
    assert sessions.active(5, 0).session_id == "a"
    assert sum(s.is_active for s in sessions.list(5, 0)) == 1
    sessions.deactivate("a")
    assert sessions.active(5, 0) is None
    with pytest.raises(UsageError, match="nope"):
        sessions.activate("nope")


async def test_touch_orders_by_use(sessions: Sessions, clock) -> None:
    sessions.open(5, 0, "a")
    sessions.open(5, 0, "b")
    await clock.sleep(1)
    sessions.touch("a")
    assert [s.session_id for s in sessions.list(5, 0)] == ["a", "b"]


def test_the_database_itself_refuses_a_second_active_one(sessions: Sessions, store: Store) -> None:
    sessions.open(5, 0, "a")
    with pytest.raises((StoreError, sqlite3.IntegrityError)):
        store.transact(
            lambda tx: tx.run(
                "INSERT INTO sessions (chat_id, thread_id, root_session_id, is_active,"
                " created_at, last_used_at)"
                " VALUES (5, 0, 'z', 1, '', '')"
            )
        )
