"""The stand-in server is as strict as the real one; python-telegram-bot reads all it says."""

import asyncio
import contextlib

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from telegram import Bot, MessageEntity
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter

from rightlab.testing import BotApi
from rightlab.testing._botapi_text import TextRefused, checked_text, units

MARKUP = ["<b>", "</b>", "<i>", "</i>", "<", "&", "&lt;", "x", "😀", " ", "<a href='u'>", "</a>"]


@pytest.fixture
async def bot(api: BotApi):
    api.add_chat(42)
    async with Bot(
        api.token, base_url=f"{api.base_url}/bot", base_file_url=f"{api.base_url}/file/bot"
    ) as running:
        yield running


async def test_every_method_is_read_by_the_library(api: BotApi, bot: Bot) -> None:
    assert (await bot.get_me()).username == "right_test_bot"
    assert (await bot.get_chat(42)).type == "private"
    sent = await bot.send_message(42, "hello")
    assert (await bot.edit_message_text("changed", 42, sent.message_id)).text == "changed"
    assert await bot.send_chat_action(42, "typing")
    assert await bot.set_my_commands([("start", "Begin")])
    assert await bot.set_webhook("https://example.org/x")
    assert (await bot.get_webhook_info()).url == "https://example.org/x"
    assert await bot.delete_webhook()
    assert (await bot.get_webhook_info()).url == ""
    api.add_file("f1", b"data")
    file = await bot.get_file("f1")
    assert bytes(await file.download_as_bytearray()) == b"data"
    api.send_update(
        {
            "callback_query": {
                "id": "c1",
                "from": {"id": 42, "is_bot": False, "first_name": "A"},
                "chat_instance": "1",
                "data": "stop:42:0",
            }
        }
    )
    (update,) = await bot.get_updates()
    assert await update.callback_query.answer()
    assert await bot.delete_message(42, sent.message_id)
    assert api.messages(42) == []


async def test_updates_come_again_until_acknowledged(api: BotApi, bot: Bot) -> None:
    first, second = api.send_text(42, "a"), api.send_text(42, "b")
    for _ in range(2):
        assert [update.update_id for update in await bot.get_updates()] == [first, second]
    assert [update.update_id for update in await bot.get_updates(offset=second)] == [second]
    assert [update.update_id for update in await bot.get_updates()] == [second]
    assert await bot.get_updates(offset=second + 1) == ()
    assert api.pending_updates == []


async def test_limit_negative_offset_and_kinds(api: BotApi, bot: Bot) -> None:
    ids = [api.send_text(42, str(number)) for number in range(5)]
    assert [update.update_id for update in await bot.get_updates(limit=2)] == ids[:2]
    assert [update.update_id for update in await bot.get_updates(offset=-1)] == ids[-1:]
    await bot.get_updates(offset=ids[-1] + 1, allowed_updates=["edited_message"])
    api.send_text(42, "not wanted")
    edited = api.send_text(42, "wanted", edited=True)
    assert [update.update_id for update in await bot.get_updates()] == [edited]


async def test_a_long_poll_waits_for_the_next_update(api: BotApi, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=10))
    await asyncio.sleep(0.1)
    assert not poll.done()
    api.send_text(42, "now")
    assert [update.message.text for update in await asyncio.wait_for(poll, 2)] == ["now"]


async def test_the_second_poller_ends_the_first(api: BotApi, bot: Bot) -> None:
    poll = asyncio.create_task(bot.get_updates(timeout=10))
    await asyncio.sleep(0.1)
    async with Bot(api.token, base_url=f"{api.base_url}/bot") as other:
        await other.get_updates(timeout=0)
        with pytest.raises(Conflict, match="make sure that only one bot instance is running"):
            await poll
        await other.set_webhook("https://example.org/x")
        with pytest.raises(Conflict, match="webhook is active"):
            await other.get_updates()


async def test_tokens(api: BotApi) -> None:
    async with httpx.AsyncClient() as client:
        wrong = await client.get(f"{api.base_url}/bot1:wrong/getMe")
        assert (wrong.status_code, wrong.json()["description"]) == (401, "Unauthorized")
        assert (await client.get(f"{api.base_url}/botnonsense/getMe")).status_code == 404
        assert (await client.get(f"{api.base_url}/")).status_code == 404
        right = await client.post(f"{api.base_url}/bot{api.token}/GETME", json={})
        assert right.json()["result"]["is_bot"] is True
        missing = await client.get(f"{api.base_url}/bot{api.token}/sendSticker")
        assert (missing.status_code, missing.json()["ok"]) == (404, False)
    with pytest.raises(InvalidToken):
        await Bot("1:x", base_url=f"{api.base_url}/bot").initialize()


async def test_a_form_text_that_looks_like_json_is_text(api: BotApi, bot: Bot) -> None:
    for text in ("[1, 2]", '{"a": 1}', "7", "null"):
        assert (await bot.send_message(42, text)).text == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "message text is empty"),
        (" \n ", "message text is empty"),
        ("x" * 4097, "message is too long"),
        ("😀" * 2049, "message is too long"),
    ],
)
async def test_texts_are_checked(api: BotApi, bot: Bot, text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=f"(?i){words}"):
        await bot.send_message(42, text)
    assert api.messages(42) == []


async def test_4096_units_are_accepted(api: BotApi, bot: Bot) -> None:
    await bot.send_message(42, "😀" * 2048)
    assert units(api.texts(42)[0]) == 4096


@pytest.mark.parametrize(
    "html",
    ["<b>open", "<b><i>x</b></i>", "a < b", "<font>x</font>", "x</b>", "<span>x</span>", "a <", "<>"],
)
async def test_broken_html_is_refused(bot: Bot, html: str) -> None:
    with pytest.raises(BadRequest, match=r"(?i)can't parse entities"):
        await bot.send_message(42, html, parse_mode="HTML")


async def test_html_becomes_entities(bot: Bot) -> None:
    html = (
        '<b>bold <i>both</i></b> &lt;tag&gt; &#128512; <pre><code class="language-py">x = 1</code></pre>'
        ' <a href="https://e.org">link</a>'
    )
    sent = await bot.send_message(42, html, parse_mode="HTML")
    assert sent.text == "bold both <tag> 😀 x = 1 link"
    found = {entity.type: text for entity, text in sent.parse_entities().items()}
    assert found["bold"] == "bold both"
    assert found["italic"] == "both"
    assert found["code"] == "x = 1"
    assert found["text_link"] == "link"


@pytest.mark.parametrize(("offset", "length"), [(0, 9), (1, 2), (2, 0), (-1, 2), (0, 2)])
async def test_entities_must_fit_the_text(bot: Bot, offset: int, length: int) -> None:
    given = [MessageEntity("bold", offset, length)]
    if (offset, length) == (0, 2):
        assert (await bot.send_message(42, "😀ab", entities=given)).entities[0].length == 2
        return
    with pytest.raises(BadRequest, match=r"(?i)can't parse"):
        await bot.send_message(42, "😀ab", entities=given)


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_law_plain_text_is_stored_stripped_or_refused(text: str) -> None:
    try:
        stored, entities = checked_text(text, None, None)
    except TextRefused:
        assert not text.strip()
    else:
        assert (stored, entities) == (text.strip(), [])


@settings(max_examples=200)
@given(st.text(max_size=60) | st.lists(st.sampled_from(MARKUP)).map("".join))
def test_law_any_html_is_read_or_refused_and_entities_fit(text: str) -> None:
    with contextlib.suppress(TextRefused):
        stored, entities = checked_text(text, "HTML", None)
        assert stored
        for entity in entities:
            assert 0 <= entity["offset"] < entity["offset"] + entity["length"]


async def test_chats_topics_and_replies_are_checked(api: BotApi, bot: Bot) -> None:
    with pytest.raises(BadRequest, match="Chat not found"):
        await bot.send_message(7, "x")
    with pytest.raises(BadRequest, match=r"(?i)thread not found"):
        await bot.send_message(42, "x", message_thread_id=1)
    with pytest.raises(BadRequest, match=r"(?i)message to be replied not found"):
        await bot.send_message(42, "x", reply_to_message_id=99)
    with pytest.raises(BadRequest, match=r"(?i)message to edit not found"):
        await bot.edit_message_text("x", 42, 99)
    sent = await bot.send_message(42, "x")
    with pytest.raises(BadRequest, match="exactly the same"):
        await bot.edit_message_text("x", 42, sent.message_id)
    api.send_text(42, "a person's", message_id=50)
    with pytest.raises(BadRequest, match="can't be edited"):
        await bot.edit_message_text("y", 42, 50)
    with pytest.raises(BadRequest, match=r"(?i)query is too old"):
        await bot.answer_callback_query("nope")
    api.block(42)
    with pytest.raises(Forbidden, match="blocked by the user"):
        await bot.send_message(42, "x")


async def test_message_ids_are_counted_per_chat(api: BotApi, bot: Bot) -> None:
    api.add_chat(-100)
    assert (await bot.send_message(42, "x")).message_id == (await bot.send_message(-100, "x")).message_id


async def test_faults_are_made_as_planned(api: BotApi, bot: Bot) -> None:
    api.fail_next("sendMessage", 429, retry_after=3)
    with pytest.raises(RetryAfter):
        await bot.send_message(42, "x")
    api.add_chat(43)
    api.fail_next("sendMessage", 400, "Bad Request: only here", chat_id=43)
    await bot.send_message(42, "other chats are spared")
    with pytest.raises(BadRequest, match="Only here"):
        await bot.send_message(43, "x")
    api.drop_before_storing("sendMessage")
    with pytest.raises(NetworkError):
        await bot.send_message(43, "lost")
    api.drop_after_storing("sendMessage")
    with pytest.raises(NetworkError):
        await bot.send_message(43, "stored")
    assert api.texts(43) == ["stored"]
    api.flood(43, 5)
    with pytest.raises(RetryAfter):
        await bot.send_chat_action(43, "typing")
    assert api.calls[-1].status == 429


def test_waiting_says_what_was_called_instead(api: BotApi) -> None:
    with pytest.raises(TimeoutError, match="none"):
        api.wait_for(lambda: False, 0.05)


def test_two_servers_do_not_touch(api: BotApi) -> None:
    with BotApi(token="9:other") as other:
        other.send_text(1, "x")
        assert api.pending_updates == []
        assert other.base_url != api.base_url
