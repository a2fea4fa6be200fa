import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightlab.conversation import Archive, Inbound, Sender
from rightlab.errors import UsageError
from rightlab.store import Store

START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


def said(message_id: int, text: str, **more) -> Inbound:
    base = Inbound(
        channel="telegram",
        update_id=message_id,
        chat_id=-100,
        thread_id=0,
        message_id=message_id,
        sent_at=START + timedelta(minutes=message_id),
        chat_kind="group",
        sender=Sender(7, "Ann"),
        text=text,
    )
    return replace(base, **more)


def test_a_message_is_stored_once_and_an_edit_overwrites_it(archive: Archive, store: Store) -> None:
    archive.record_inbound(said(1, " the first "), addressed=True, routed=True)
    archive.mark_routed("telegram", -100, [1], session_id="s", turn_id="t")
    archive.record_inbound(said(1, "the second", edited=True), addressed=False, routed=False)
    row = store.row("SELECT * FROM conversation_messages")
    assert store.value("SELECT count(*) FROM conversation_messages") == 1
    assert (row["content"], row["addressed_to_bot"], row["routed_to_agent"]) == ("the second", 0, 1)
    assert (row["root_session_id"], row["turn_id"]) == ("s", "t")
    assert archive.search("second", -100)
    assert archive.search("first", -100) == []


def test_an_empty_message_is_not_stored(archive: Archive, store: Store) -> None:
    assert not archive.record_inbound(said(1, " \n "), addressed=True, routed=True)
    assert store.value("SELECT count(*) FROM conversation_messages") == 0


def test_search_wants_every_word_and_returns_the_newest_first(archive: Archive) -> None:
    for number, text in enumerate(["red fox", "red hen", "a red fox again", "blue fox"], 1):
        archive.record_inbound(said(number, text), addressed=False, routed=False)
    found = archive.search("RED fox", -100)
    assert [f.message_id for f in found] == [3, 1]
    assert found[0].snippet == "a [red] [fox] again"
    assert found[0].sender_name == "Ann"
    assert len(archive.search("fox", -100, limit=0)) == 1


def test_search_stays_in_its_scope(archive: Archive) -> None:
    archive.record_inbound(said(1, "fox"), addressed=False, routed=False)
    archive.record_inbound(said(2, "fox", thread_id=9), addressed=False, routed=False)
    archive.record_inbound(said(1, "fox", chat_id=-200), addressed=False, routed=False)
    assert [f.message_id for f in archive.search("fox", -100, 9)] == [2]
    assert [f.message_id for f in archive.search("fox", -100, 0)] == [1]
    assert len(archive.search("fox", -100)) == 2
    assert len(archive.search("fox", -200)) == 1


@pytest.mark.parametrize("query", ["", "  ", "!?", "___"])
def test_a_search_without_a_word_is_an_error(archive: Archive, query: str) -> None:
    with pytest.raises(UsageError, match="no word"):
        archive.search(query, -100)


@given(query=st.text())
def test_no_query_breaks_the_search(query: str, tmp_path_factory) -> None:
    path = tmp_path_factory.getbasetemp() / "any-query.db"
    with Store.open(path, role="owner") as store, contextlib.suppress(UsageError):
        Archive(store, None).search(query, 1)


def test_what_was_delivered_is_found_by_the_platforms_ids(archive: Archive) -> None:
    stored = archive.record_assistant(
        platform="telegram",
        chat_id=-100,
        thread_id=4,
        messages=[(50, "part one"), (51, "part two"), (None, "  ")],
        session_id="s",
        turn_id="t",
    )
    assert stored == 2
    assert [f.content for f in archive.by_ids([51, 50, 99], -100, 4)] == ["part one", "part two"]
    assert archive.by_ids([50], -100, 0) == []
    assert archive.search("two", -100)[0].role == "assistant"


def test_forgotten_messages_are_not_found(archive: Archive, store: Store) -> None:
    archive.record_inbound(said(1, "secretword"), addressed=True, routed=True)
    assert archive.forget("telegram", -100, 1) == 1
    assert archive.search("secretword", -100) == []
    assert store.value("SELECT count(*) FROM conversation_fts WHERE conversation_fts MATCH 'secretword'") == 0


def test_last_activity(archive: Archive) -> None:
    assert archive.last_activity(-100) is None
    archive.record_inbound(said(3, "x"), addressed=False, routed=False)
    assert archive.last_activity(-100) == START + timedelta(minutes=3)
    assert [f.content for f in archive.recent(-100)] == ["x"]
