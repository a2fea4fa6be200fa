"""Updates in: durable, once, routed by the allowlist."""

import pytest

from rightlab.errors import FencedOut
from rightlab.store import Store
from rightlab.telegram.client import Client


async def test_a_trusted_persons_message_arrives_and_is_archived(bench) -> None:
    await bench.channel.start()
    update_id = bench.api.send_text(
        42, "hello /there", user={"id": 42, "first_name": "Ann", "username": "ann"}
    )
    await bench.until(lambda: bench.seen)
    message = bench.seen[0]
    assert (message.channel, message.update_id, message.chat_id, message.thread_id) == (
        "telegram",
        update_id,
        42,
        0,
    )
    assert (message.text, message.chat_kind, message.addressed) == ("hello /there", "dm", True)
    assert (message.sender.user_id, message.sender.name, message.sender.username) == (42, "Ann", "ann")
    assert bench.inbox.get(message.inbox_id).state == "queued"
    assert bench.archive.search("hello", 42)[0].message_id == message.message_id
    await bench.settled()
    status = bench.channel.status()
    assert (status["connected"], status["username"], status["last_error"]) == (True, "right_test_bot", None)
    assert status["last_update"].endswith("Z")


async def test_C21_C49_a_stranger_is_ignored_silently_and_not_kept(bench) -> None:
    await bench.channel.start()
    bench.api.send_text(666, "let me in")
    bench.api.send_text(42, "me")
    await bench.until(lambda: bench.seen)
    await bench.settled()
    assert [message.chat_id for message in bench.seen] == [42]
    assert bench.api.messages(666) == []
    assert bench.archive.recent(666) == []
    row = bench.store.row("SELECT * FROM inbox WHERE chat_id = 666")
    assert (row["state"], row["payload"]) == ("ignored", None)
    assert "allowlist" in row["reason"]


async def test_the_allowlist_is_asked_for_each_batch(bench) -> None:
    bench.people.users.clear()
    await bench.channel.start()
    bench.api.send_text(42, "one")
    await bench.settled()
    bench.people.users.add(42)
    bench.api.send_text(42, "two")
    await bench.until(lambda: bench.seen)
    assert [message.text for message in bench.seen] == ["two"]


async def test_pain_H68502_the_same_update_again_is_not_answered_again(bench) -> None:
    await bench.channel.start()
    update_id = bench.api.send_text(42, "once")
    await bench.until(lambda: bench.seen)
    await bench.settled()
    bench.api.redeliver(update_id)
    await bench.settled()
    await bench.channel.stop()
    again = bench.make()
    bench.inbox.settle([bench.seen[0].inbox_id], "done")
    bench.api.redeliver(update_id)
    await again.start()
    await bench.settled()
    assert [message.text for message in bench.seen] == ["once"]


async def test_pain_H_PR11940_a_command_is_on_disk_before_anybody_acts_on_it(bench) -> None:
    """`/restart` that kills the process while it is handled must not come again for ever."""
    states = []

    async def restart(message) -> None:
        states.append(bench.inbox.get(message.inbox_id).state)
        bench.inbox.settle([message.inbox_id], "done")
        raise SystemError("the process goes down here")

    first = bench.make(on_message=restart)
    await first.start()
    bench.api.send_text(42, "/restart")
    await bench.until(lambda: states)
    await first.stop()
    for _ in range(2):
        later = bench.make()
        await later.start()
        await bench.settled()
        await later.stop()
    assert states == ["queued"]
    assert bench.seen == []


async def test_what_was_queued_is_taken_up_again_at_the_next_start_in_order(bench) -> None:
    await bench.channel.start()
    for text in ("one", "two", "three"):
        bench.api.send_text(42, text)
    await bench.until(lambda: len(bench.seen) == 3)
    await bench.channel.stop()
    bench.inbox.settle([bench.seen[1].inbox_id], "done")
    before = list(bench.seen)
    bench.seen.clear()
    bench.api.send_text(42, "four")
    again = bench.make()
    await again.start()
    await bench.until(lambda: len(bench.seen) == 3)
    assert [message.text for message in bench.seen] == ["one", "three", "four"]
    assert bench.seen[0] == before[0]


async def test_who_was_taken_off_the_list_meanwhile_is_not_taken_up(bench) -> None:
    await bench.channel.start()
    bench.api.send_text(42, "one")
    await bench.until(lambda: bench.seen)
    await bench.channel.stop()
    bench.people.users.clear()
    again = bench.make()
    await again.start()
    await bench.until(lambda: bench.inbox.get(bench.seen[0].inbox_id).state == "ignored")
    assert len(bench.seen) == 1


async def test_a_message_that_broke_the_handler_does_not_stop_the_others(bench) -> None:
    async def picky(message) -> None:
        if message.text == "bad":
            raise ValueError("no")
        bench.seen.append(message)

    channel = bench.make(on_message=picky)
    await channel.start()
    bench.api.send_text(42, "bad")
    bench.api.send_text(42, "good")
    await bench.until(lambda: bench.seen)
    await bench.settled()
    assert [row.payload["message"]["text"] for row in bench.inbox.pending()] == ["bad", "good"]


async def test_an_update_nobody_can_read_does_not_hide_the_others(bench) -> None:
    await bench.channel.start()
    bench.api.send_update({"message": {"message_id": "x", "date": "y", "chat": 7}})
    bench.api.send_update({"message": {"message_id": 1}})
    bench.api.send_text(42, "still here")
    await bench.until(lambda: bench.seen)
    await bench.settled()
    reasons = [row["reason"] for row in bench.store.rows("SELECT reason FROM inbox WHERE state = 'ignored'")]
    assert len(reasons) == 2
    assert all("cannot be read" in reason for reason in reasons)


NO_UPDATES = [
    None,
    "text",
    [],
    {},
    {"message": {"text": "no id"}},
    {"update_id": None},
    {"update_id": "7"},
    {"update_id": True},
    {"update_id": -1},
    {"update_id": 2**64},
]


async def test_what_is_no_update_is_logged_and_skipped(bench, monkeypatch, caplog) -> None:
    """It can never be acknowledged: it must neither stop the poll nor make the others come again."""
    fetch = Client.raw_updates

    async def with_others(self, **asked):
        answer = await fetch(self, **asked)
        return [*NO_UPDATES[:5], *answer, *NO_UPDATES[5:]] if answer else answer

    monkeypatch.setattr(Client, "raw_updates", with_others)
    await bench.channel.start()
    bench.api.send_text(42, "one")
    await bench.until(lambda: bench.seen)
    await bench.settled()
    bench.api.send_text(42, "two")
    await bench.until(lambda: len(bench.seen) == 2)
    await bench.settled()
    assert [message.text for message in bench.seen] == ["one", "two"]
    assert bench.store.value("SELECT count(*) FROM inbox") == 2
    assert bench.channel.status()["last_error"] is None
    assert caplog.text.count("no update") == 2 * len(NO_UPDATES)


@pytest.mark.parametrize("answer", [*({"ok": 1}, "text"), [{"message": {}}]])
async def test_an_answer_without_any_update_is_not_asked_for_in_a_circle(bench, monkeypatch, answer) -> None:
    asked = []

    async def nonsense(self, **more):
        asked.append(more["offset"])
        return answer

    monkeypatch.setattr(Client, "raw_updates", nonsense)
    await bench.channel.start()
    await bench.until(lambda: len(asked) == 3)
    assert bench.channel.status()["connected"]
    await bench.channel.stop()
    assert set(asked) == {None}
    assert bench.store.value("SELECT count(*) FROM inbox") == 0


UNSOUND = {
    "a large chat id": {"chat": {"id": 2**70, "type": "private"}},
    "a chat id in words": {"chat": {"id": "forty-two", "type": "private"}},
    "a large message id": {"message_id": 2**70},
    "a message id that is a list": {"message_id": [1]},
    "half a character": {"text": "a\ud800b"},
    "a text that is none": {"text": {"a": 1}},
    "a large sender": {"from": {"id": 2**70, "is_bot": False, "first_name": "A"}},
    "half a character in the name": {"from": {"id": 42, "is_bot": False, "first_name": "A\udfff"}},
    "a list as a file's id": {"text": None, "document": {"file_id": [1], "file_unique_id": "x"}},
}


@pytest.mark.parametrize("name", UNSOUND)
async def test_a_message_that_cannot_be_stored_hides_no_other(bench, name: str) -> None:
    ann = {"id": 42, "is_bot": False, "first_name": "Ann"}
    plain = {"message_id": 1, "date": 1, "chat": {"id": 42, "type": "private"}, "from": ann, "text": "odd"}
    bench.api.send_text(42, "before")
    bench.api.send_update({"message": {**plain, **UNSOUND[name]}})
    bench.api.send_text(42, "after")
    await bench.channel.start()
    await bench.until(lambda: any(message.text == "after" for message in bench.seen))
    await bench.settled()
    assert [message.text for message in bench.seen if message.text in ("before", "after")] == [
        "before",
        "after",
    ]
    assert bench.store.value("SELECT count(*) FROM inbox") == 3
    assert bench.channel.status()["last_error"] is None
    bench.api.send_text(42, "later")
    await bench.until(lambda: any(message.text == "later" for message in bench.seen))


async def test_no_sender_no_answer(bench) -> None:
    await bench.channel.start()
    message = {"message_id": 9, "date": 1, "chat": {"id": 42, "type": "private"}, "text": "who am I"}
    bench.api.send_update({"message": message})
    await bench.settled()
    assert bench.store.value("SELECT reason FROM inbox") == "no sender"


async def test_C21_groups_are_archived_before_routing_and_not_run_yet(bench) -> None:
    bench.people.groups[-100] = ("group", "addressed", {})
    await bench.channel.start()
    bench.api.send_text(-100, "just chatting", user=7)
    bench.api.send_text(-100, "@right_test_bot what about it", user=7)
    bench.api.send_text(-200, "a closed group", user=7)
    bench.api.send_text(-200, "a trusted person there", user=42)
    await bench.until(lambda: bench.store.value("SELECT count(*) FROM inbox") == 4)
    await bench.settled()
    assert bench.seen == []
    reasons = [row["reason"] for row in bench.store.rows("SELECT reason FROM inbox ORDER BY id")]
    assert reasons[0] == "not addressed"
    assert reasons[1] == "groups come later"
    assert "allowlist" in reasons[2]
    assert reasons[3] == "not addressed"
    assert [found.content for found in bench.archive.recent(-100)] == ["what about it", "just chatting"]
    assert [found.content for found in bench.archive.recent(-200)] == ["a trusted person there"]
    rows = bench.store.rows("SELECT addressed_to_bot, routed_to_agent FROM conversation_messages ORDER BY id")
    assert [tuple(row) for row in rows] == [(0, 0), (1, 0), (0, 0)]


async def test_channel_posts_only_of_opened_channels_and_never_run(bench) -> None:
    bench.people.groups[-300] = ("channel", "addressed", {})
    await bench.channel.start()
    bench.api.send_text(-300, "the news", chat_type="channel")
    bench.api.send_text(-301, "other news", chat_type="channel")
    await bench.settled()
    assert [found.content for found in bench.archive.recent(-300)] == ["the news"]
    assert bench.archive.recent(-301) == []
    assert bench.seen == []


async def test_an_edited_message_is_treated_like_a_message(bench) -> None:
    await bench.channel.start()
    bench.api.send_text(42, "first", message_id=5)
    bench.api.send_text(42, "second", message_id=5, edited=True)
    await bench.until(lambda: len(bench.seen) == 2)
    assert bench.seen[1].edited
    assert [found.content for found in bench.archive.recent(42)] == ["second"]


async def test_pain_tdlib798_a_reply_outside_topics_has_no_thread(bench) -> None:
    bench.people.groups[-100] = ("group", "all", {})
    await bench.channel.start()
    bench.api.send_text(-100, "bogus thread", user=7, thread_id=555, topic=False)
    bench.api.send_text(-100, "general", user=7, thread_id=1)
    bench.api.send_text(-100, "a topic", user=7, thread_id=9)
    await bench.until(lambda: bench.store.value("SELECT count(*) FROM inbox") == 3)
    rows = bench.store.rows("SELECT thread_id FROM conversation_messages ORDER BY id")
    assert [row["thread_id"] for row in rows] == [0, 0, 9]


async def test_updates_of_another_bot_are_not_taken_for_duplicates(bench, tmp_path) -> None:
    bench.inbox.put("telegram", 700_000_001, {}, chat_id=1, origin="999")
    await bench.channel.start()
    assert bench.api.send_text(42, "mine") == 700_000_001
    await bench.until(lambda: bench.seen)


async def test_nothing_is_acknowledged_that_is_not_on_disk(bench, monkeypatch) -> None:
    full = True
    submit = Store._submit

    def flaky(self, fn, **more):
        if full:
            raise OSError(28, "No space left on device")
        return submit(self, fn, **more)

    monkeypatch.setattr(Store, "_submit", flaky)
    await bench.channel.start()
    update_id = bench.api.send_text(42, "precious")
    await bench.until(lambda: bench.channel.status()["state"] == "failing")
    assert bench.api.pending_updates == [update_id]
    assert "space" in bench.channel.status()["last_error"]
    full = False
    await bench.until(lambda: bench.seen)
    await bench.settled()
    assert bench.channel.status()["connected"]


async def test_a_fenced_channel_stops_polling(bench) -> None:
    async def fenced(*_) -> None:
        raise FencedOut("another process has taken this agent over")

    await bench.channel.start()
    bench.channel._intake.take = fenced
    update_id = bench.api.send_text(42, "for the new owner")
    await bench.until(lambda: bench.channel.status()["state"] == "fenced")
    polls = len(bench.api.calls_of("getUpdates"))
    assert bench.api.pending_updates == [update_id]
    assert not bench.channel.status()["connected"]
    assert len(bench.api.calls_of("getUpdates")) == polls


PERSON = {"id": 42, "is_bot": False, "first_name": "Ann"}
FILE = {"file_id": "f", "file_unique_id": "u", "file_size": 3}
ANSWERED = {"message_id": 3, "date": 1, "chat": {"id": 42, "type": "private", "first_name": "Ann"}}
ODD_FIELDS = [
    {"quote": {"text": 5, "position": 0}},
    {"quote": {"text": {"a": 1}, "position": 0}},
    {"from": {**PERSON, "username": 5}},
    {"from": {**PERSON, "first_name": ["Ann"]}},
    {"media_group_id": 5},
    {"chat": {"id": 42, "type": "private", "first_name": "Ann", "title": {}}},
    {"document": {**FILE, "file_name": 7}},
    {"document": {**FILE, "mime_type": ["x"]}},
    {"document": {**FILE, "file_size": "3"}},
    {"reply_to_message": {**ANSWERED, "message_id": "3"}},
    {"reply_to_message": {**ANSWERED, "text": 5}},
    {"reply_to_message": {**ANSWERED, "document": {**FILE, "file_name": 7}}},
    {"forward_origin": {"type": "hidden_user", "date": 1, "sender_user_name": 5}},
]


async def test_fields_of_a_wrong_type_hide_their_own_update_only(bench) -> None:
    await bench.channel.start()
    plain = {"message_id": 5, "date": 1, "from": PERSON, "chat": ANSWERED["chat"], "text": "odd"}
    for odd in ODD_FIELDS:
        bench.api.send_update({"message": {**plain, **odd}})
    bench.api.send_text(42, "still here")
    await bench.until(lambda: bench.seen)
    await bench.settled()
    assert [message.text for message in bench.seen] == ["still here"]
    reasons = [row["reason"] for row in bench.store.rows("SELECT reason FROM inbox WHERE state = 'ignored'")]
    assert len(reasons) == len(ODD_FIELDS)
    assert all("cannot be read" in reason for reason in reasons)
