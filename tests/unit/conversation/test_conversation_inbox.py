import contextlib
from datetime import timedelta
from pathlib import Path

from rightlab.conversation import Inbox, NewUpdate
from rightlab.store import Store


def test_pain_H68502_an_update_is_taken_once_also_after_a_restart(tmp_path: Path, clock) -> None:
    for attempt in range(3):
        with Store.open(tmp_path / "data.db", role="owner") as store:
            taken = Inbox(store, clock).put("telegram", 77, {"n": attempt}, chat_id=5)
            assert (taken is not None) == (attempt == 0)


def test_update_ids_of_two_bots_are_independent(inbox: Inbox) -> None:
    assert inbox.put("telegram", 1, {}, chat_id=5, origin="111") is not None
    assert inbox.put("telegram", 1, {}, chat_id=5, origin="222") is not None
    assert inbox.put("notebook", 1, {}, chat_id=5) is not None
    assert inbox.put("telegram", 1, {}, chat_id=5, origin="222") is None


def test_updates_without_an_id_are_never_duplicates(inbox: Inbox) -> None:
    assert inbox.put("notebook", None, {"a": 1}, chat_id=5) != inbox.put(
        "notebook", None, {"a": 1}, chat_id=5
    )


def test_a_batch_keeps_its_order_and_names_its_duplicates(inbox: Inbox) -> None:
    inbox.put("telegram", 2, {}, chat_id=5)
    ids = inbox.put_many("telegram", [NewUpdate(n, {"n": n}, 5) for n in (1, 2, 3, 3)])
    assert [row_id is None for row_id in ids] == [False, True, False, True]
    assert [row.update_id for row in inbox.pending("telegram")] == [2, 1, 3]


def test_payload_lives_until_the_row_is_closed(inbox: Inbox) -> None:
    row_id = inbox.put("telegram", 1, {"text": "héllo"}, chat_id=5, thread_id=9)
    assert row_id is not None
    assert inbox.get(row_id).payload == {"text": "héllo"}
    inbox.settle([row_id], "queued")
    assert [row.id for row in inbox.pending()] == [row_id]
    inbox.settle([row_id], "turn", turn_id="t1")
    assert inbox.pending() == []
    assert inbox.of_turn("t1")[0].payload == {"text": "héllo"}
    assert inbox.settle([row_id], "done") == 1
    closed = inbox.get(row_id)
    assert (closed.state, closed.payload, closed.turn_id, closed.thread_id) == ("done", None, "t1", 9)


def test_a_closed_row_stays_closed(inbox: Inbox) -> None:
    row_id = inbox.put("telegram", 1, {}, chat_id=5, state="ignored", reason="not on the list")
    assert inbox.settle([row_id], "queued") == 0
    assert (inbox.get(row_id).state, inbox.get(row_id).reason) == ("ignored", "not on the list")


def test_an_ignored_message_is_not_kept(inbox: Inbox, store: Store) -> None:
    inbox.put("telegram", 1, {"text": "a stranger's words"}, chat_id=5, state="ignored", reason="x")
    assert store.value("SELECT payload FROM inbox") is None


def test_forget_takes_a_credential_out_in_any_state(inbox: Inbox, store: Store) -> None:
    row_id = inbox.put("telegram", 1, {"text": "sk-ant-oat-secret"}, chat_id=5)
    inbox.settle([row_id], "turn", turn_id="t")
    inbox.forget(row_id, "carried a credential")
    assert (inbox.get(row_id).state, inbox.get(row_id).payload) == ("done", None)
    assert inbox.put("telegram", 1, {}, chat_id=5) is None


def test_prune_keeps_what_is_open(inbox: Inbox, clock) -> None:
    open_id = inbox.put("telegram", 1, {}, chat_id=5)
    inbox.put("telegram", 2, {}, chat_id=5, state="ignored")
    assert inbox.prune(clock.now() + timedelta(seconds=1)) == 1
    assert inbox.get(open_id) is not None


def test_rows_of_a_failed_transaction_are_not_there(inbox: Inbox, store: Store) -> None:
    def work(tx):
        inbox.put("telegram", 1, {}, chat_id=5, tx=tx)
        raise RuntimeError("no")

    with contextlib.suppress(RuntimeError):
        store.transact(work)
    assert inbox.pending() == []
    assert inbox.put("telegram", 1, {}, chat_id=5) is not None


def test_a_row_is_claimed_by_one_turn(inbox: Inbox) -> None:
    ids = [inbox.put("telegram", number, {}, chat_id=5, state="queued") for number in range(3)]
    assert inbox.claim(ids[:2], "t1") == ids[:2]
    assert inbox.claim(ids, "t2") == ids[2:]
    assert [row.id for row in inbox.of_turn("t1")] == ids[:2]
    assert inbox.pending() == []
