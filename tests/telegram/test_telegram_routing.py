"""The routing decision as a pure function (spec agent-runtime 4.1, B.2)."""

from types import SimpleNamespace

import pytest
from telegram import Update, User

from rightlab.telegram.inbound import to_inbound
from rightlab.telegram.routing import decide, effective_thread

ME = User(id=123, is_bot=True, first_name="Bot", username="Right_Bot")


class People:
    def __init__(
        self, mode: str | None = None, topics: dict[int, str] | None = None, kind: str = "group"
    ) -> None:
        self.mode, self.topics, self.kind = mode, topics or {}, kind

    def trusts(self, user_id: int) -> bool:
        return user_id == 42

    def group(self, chat_id: int):
        if self.mode is None:
            return None
        return SimpleNamespace(kind=self.kind, mode_for=lambda thread: self.topics.get(thread, self.mode))


def update(text: str = "hi", *, chat: int = -100, user: int = 7, entities=(), **more) -> Update:
    kind = "private" if chat > 0 else "supergroup"
    message = {
        "message_id": 5,
        "date": 1_700_000_000,
        "chat": {"id": chat, "type": kind, "title": "Team"},
        "from": {"id": user, "is_bot": False, "first_name": "Ann", "last_name": "Lee"},
        "text": text,
        "entities": list(entities),
        **more,
    }
    return Update.de_json({"update_id": 1, "message": message}, None)


def entity(kind: str, offset: int, length: int, **more) -> dict:
    return {"type": kind, "offset": offset, "length": length, **more}


MENTION = {"entities": [entity("mention", 0, 10)]}
BOT = {"id": 123, "is_bot": True, "first_name": "Bot"}
BOTS_MESSAGE = {"message_id": 1, "date": 1, "chat": {"id": -100, "type": "supergroup"}, "from": BOT}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (update("@right_bot go", **MENTION), "GroupMentionText"),
        (update("@other_bot go", **MENTION), None),
        (update("bot go", entities=[entity("text_mention", 0, 3, user=BOT)]), "GroupMentionEntity"),
        (update("/do it", entities=[entity("bot_command", 0, 3)]), "GroupSlashCommand"),
        (update("/do@RIGHT_BOT it", entities=[entity("bot_command", 0, 13)]), "GroupSlashCommand"),
        (update("/do@other_bot it", entities=[entity("bot_command", 0, 13)]), None),
        (update(reply_to_message=BOTS_MESSAGE), "GroupReplyToBot"),
        (update("plain"), None),
    ],
)
def test_addressed_in_an_opened_group(given: Update, kind: str | None) -> None:
    decision = decide(given, People("addressed"), ME)
    assert decision.kind == kind
    assert decision.addressed == (kind is not None)
    assert decision.archive


def test_a_reply_to_the_bot_comes_before_a_mention() -> None:
    both = update("@right_bot go", **MENTION, reply_to_message=BOTS_MESSAGE)
    assert decide(both, People("addressed"), ME).kind == "GroupReplyToBot"


def test_C21_mode_all_admits_the_unaddressed_also_per_topic() -> None:
    topic = {"message_thread_id": 9, "is_topic_message": True}
    assert decide(update("x"), People("all"), ME).kind == "Admitted"
    assert decide(update("x", **topic), People("addressed", {9: "all"}), ME).kind == "Admitted"
    assert decide(update("x", **topic), People("all", {9: "addressed"}), ME).kind is None


def test_C25_forwards_and_album_siblings_are_admitted() -> None:
    origin = {"type": "hidden_user", "date": 1, "sender_user_name": "Someone"}
    assert decide(update("x", forward_origin=origin), People("addressed"), ME).kind == "Admitted"
    assert decide(update("x", media_group_id="77"), People("addressed"), ME).kind == "Admitted"


def test_a_trusted_person_is_heard_in_a_closed_group_and_a_stranger_is_not() -> None:
    assert decide(update("x", user=42), People(), ME).archive
    assert decide(update("@right_bot x", user=42, **MENTION), People(), ME).kind == "GroupMentionText"
    closed = decide(update("@right_bot x", user=7, **MENTION), People(), ME)
    assert (closed.kind, closed.archive) == (None, False)


def test_C49_an_opened_group_does_not_open_the_dm() -> None:
    assert decide(update(chat=7, user=7), People("all"), ME).kind is None
    assert decide(update(chat=42, user=42), People(), ME).kind == "DirectMessage"


@pytest.mark.parametrize(
    ("more", "thread"),
    [
        ({}, 0),
        ({"message_thread_id": 1, "is_topic_message": True}, 0),
        ({"message_thread_id": 555}, 0),
        ({"message_thread_id": 9, "is_topic_message": True}, 9),
    ],
)
def test_thread_normalisation(more: dict, thread: int) -> None:
    assert effective_thread(update(**more).effective_message) == thread


def test_the_mention_is_taken_out_of_the_text_also_after_an_emoji() -> None:
    text = "😀 @Right_Bot, what's up? @right_bot"
    entities = [entity("mention", 3, 10), entity("mention", 26, 10)]
    message = to_inbound(update(text, entities=entities), ME, addressed=True)
    assert message.text == "😀 , what's up?"
    assert (message.sender.name, message.chat_title, message.chat_kind) == ("Ann Lee", "Team", "group")


def test_reply_quote_forward_and_files_are_read() -> None:
    chat = {"id": 42, "type": "private"}
    target = {"message_id": 3, "date": 1, "chat": chat, "from": BOT, "text": "earlier"}
    photo = [
        {"file_id": "s", "file_unique_id": "1", "width": 1, "height": 1, "file_size": 10},
        {"file_id": "l", "file_unique_id": "2", "width": 9, "height": 9, "file_size": 90},
    ]
    given = update(
        chat=42,
        user=42,
        reply_to_message=target,
        quote={"text": "earl", "position": 0},
        photo=photo,
        forward_origin={
            "type": "user",
            "date": 5,
            "sender_user": {"id": 8, "is_bot": False, "first_name": "Bo"},
        },
    )
    message = to_inbound(given, ME, addressed=True)
    assert (message.reply_to.message_id, message.reply_to.text, message.reply_to.author.user_id) == (
        3,
        "earlier",
        123,
    )
    assert (message.quoted_text, message.forward_from.name) == ("earl", "Bo")
    assert [(file.kind, file.file_id, file.size) for file in message.attachments] == [("photo", "l", 90)]
