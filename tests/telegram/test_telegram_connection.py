"""The connection: tokens, conflicts, outages, threads, secrets."""

import asyncio
import logging
import statistics
import threading
import time

import pytest

from rightlab.errors import ChannelError


async def test_a_wrong_token_is_one_line_without_the_token(bench) -> None:
    channel = bench.make(token="123456:another-token")
    with pytest.raises(ChannelError) as raised:
        await channel.start()
    line = str(raised.value)
    assert "refuses the bot token" in line
    assert "BotFather" in line
    assert "another-token" not in line + repr(raised.value.__cause__)
    assert "\n" not in line
    assert channel.status()["state"] == "stopped"


@pytest.mark.parametrize("token", ["", "hello", "123", "123:abc/../x", "12 3:abc"])
async def test_what_cannot_be_a_token_is_said_before_any_call(bench, token: str) -> None:
    with pytest.raises(ChannelError, match="not a Telegram bot token"):
        bench.make(token=token)
    assert bench.api.calls == []


async def test_a_bad_api_root_is_said(bench) -> None:
    with pytest.raises(ChannelError, match="api_base"):
        bench.make(api_base="telegram.org")


async def test_the_token_never_reaches_a_log(bench, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    await bench.channel.start()
    bench.api.fail_next("getUpdates", 500)
    bench.api.send_text(42, "hi")
    await bench.until(lambda: bench.seen)
    with pytest.raises(ChannelError):
        await bench.make(token="123456:wrong-token-xyz").start()
    bench.api.offline()
    await bench.until(lambda: bench.channel.status()["state"] == "offline")
    text = caplog.text + "".join(record.getMessage() for record in caplog.records)
    assert "HTTP Request" in text, "the client's log was not seen at all"
    assert "test-token_abc" not in text
    assert "wrong-token-xyz" not in text
    assert "test-token_abc" not in repr(bench.channel) + repr(bench.channel._client)


async def test_an_unreachable_server_at_start_is_waited_for(bench) -> None:
    bench.api.offline()
    await bench.channel.start()
    assert bench.channel.status()["state"] == "offline"
    assert "not reached" in bench.channel.status()["last_error"]
    bench.api.online()
    bench.api.send_text(42, "now")
    await bench.until(lambda: bench.seen)
    assert bench.channel.status()["last_error"] is None


async def test_an_outage_is_survived_and_the_outbox_is_told(bench) -> None:
    connected = 0

    async def on_connected() -> None:
        nonlocal connected
        connected += 1

    channel = bench.make(on_connected=on_connected)
    await channel.start()
    await bench.until(lambda: connected == 1)
    bench.api.offline()
    await bench.until(lambda: channel.status()["state"] == "offline")
    bench.api.send_text(42, "while it was down")
    bench.api.online()
    await bench.until(lambda: bench.seen)
    await bench.until(lambda: connected == 2)


async def test_errors_of_the_server_are_retried_with_growing_pauses(bench) -> None:
    bench.api.fail_next("getUpdates", 502, "Bad Gateway", times=3)
    bench.api.drop_after_storing("getUpdates")
    await bench.channel.start()
    bench.api.send_text(42, "after all")
    await bench.until(lambda: bench.seen)
    assert len(bench.seen) == 1


async def test_a_flood_wait_on_polling_is_obeyed(bench) -> None:
    bench.api.fail_next("getUpdates", 429, retry_after=1)
    await bench.channel.start()
    started = time.monotonic()
    bench.api.send_text(42, "later")
    await bench.until(lambda: bench.seen)
    assert time.monotonic() - started > 0.8


async def test_pain_claude_plugins_1034_a_second_poller_is_told_and_does_not_spin(bench) -> None:
    await bench.channel.start()
    await bench.until(lambda: bench.api.calls)
    other = bench.make()
    await other.start()
    await bench.until(lambda: bench.channel.status()["state"] == "conflict")
    assert "one poller per token" in bench.channel.status()["last_error"]
    before = len(bench.api.calls)
    await asyncio.sleep(1.0)
    assert len(bench.api.calls) - before < 12, "the two fight"
    await bench.channel.stop()
    bench.api.send_text(42, "only one is left")
    await bench.until(lambda: bench.seen)
    await bench.until(lambda: other.status()["connected"])


async def test_a_conflict_is_not_a_connection(bench) -> None:
    """Reaching the server between two conflicts must neither reset the pauses nor look like health."""
    await bench.channel.start()
    bench.api.fail_next("getUpdates", 409, "Conflict: terminated by other getUpdates request", times=3)
    bench.api.send_text(42, "x")
    await bench.until(lambda: bench.channel.status()["state"] == "conflict")
    started = time.monotonic()
    await bench.until(lambda: bench.seen)
    assert time.monotonic() - started > 0.2 + 0.4 - 0.1
    await bench.until(lambda: bench.channel.status()["connected"])


async def test_a_webhook_of_earlier_days_is_taken_off(bench) -> None:
    await bench.api.until(lambda: True)
    from telegram import Bot

    async with Bot(bench.api.token, base_url=f"{bench.api.base_url}/bot") as bot:
        await bot.set_webhook("https://example.org/hook")
    await bench.channel.start()
    bench.api.send_text(42, "hi")
    await bench.until(lambda: bench.seen)


async def test_a_token_revoked_later_is_said_and_not_hammered(bench) -> None:
    await bench.channel.start()
    bench.api.revoke_token("123456:new-one")
    bench.api.send_text(42, "lost on us")
    await bench.until(lambda: bench.channel.status()["state"] == "refused")
    before = len(bench.api.calls)
    await asyncio.sleep(0.3)
    assert len(bench.api.calls) - before <= 1
    assert "refuses the bot token" in bench.channel.status()["last_error"]


async def test_stop_is_quick_and_leaves_nothing_behind(bench) -> None:
    await bench.channel.start()
    await bench.until(lambda: bench.api.calls)
    await asyncio.sleep(0.05)
    started = time.monotonic()
    await bench.channel.stop()
    assert time.monotonic() - started < 0.5
    assert bench.channel.status()["state"] == "stopped"
    bench.api.send_text(42, "nobody home")
    calls = len(bench.api.calls)
    await asyncio.sleep(0.2)
    assert len(bench.api.calls) == calls
    assert not [task for task in asyncio.all_tasks() if "rightlab-telegram" in task.get_name()]


async def test_start_twice_is_one_poller_and_it_can_start_again(bench) -> None:
    await bench.channel.start()
    await bench.channel.start()
    await bench.channel.stop()
    await bench.channel.start()
    bench.api.send_text(42, "again")
    await bench.until(lambda: bench.seen)
    assert bench.channel.status()["connected"]


def test_pain_PTB3251_PTB3371_runs_in_a_thread_while_the_main_thread_sleeps(api, tmp_path) -> None:
    """One call starts it under a running loop and outside the main thread; a busy main thread does not
    slow it.
    """
    from rightlab.clock import SystemClock
    from rightlab.content import Part
    from rightlab.conversation import Archive, Inbox
    from rightlab.store import Store
    from rightlab.telegram import TelegramChannel

    ready, finish = threading.Event(), threading.Event()
    latencies: list[float] = []
    sent_at: dict[str, float] = {}

    async def main() -> None:
        with Store.open(tmp_path / "data.db", role="owner") as store:

            async def echo(message) -> None:
                latencies.append(time.monotonic() - sent_at[message.text])
                await channel.send(message.chat_id, message.thread_id, Part(0, "text", message.text))

            everybody = type("All", (), {"trusts": lambda *_: True, "group": lambda *_: None})()
            channel = TelegramChannel(
                token=api.token,
                api_base=api.base_url,
                store=store,
                inbox=Inbox(store, SystemClock()),
                archive=Archive(store, SystemClock()),
                allowlist=lambda: everybody,
                on_message=echo,
            )
            await channel.start()
            ready.set()
            await asyncio.to_thread(finish.wait)
            await channel.stop()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    assert ready.wait(10)

    def person() -> None:
        for number in range(20):
            sent_at[str(number)] = time.monotonic()
            api.send_text(42, str(number))
            api.wait_for(lambda count=number: len(api.messages(42)) == count + 1)

    writer = threading.Thread(target=person)
    writer.start()
    time.sleep(1.0)  # what a cell that blocks the main thread does
    writer.join(20)
    finish.set()
    thread.join(5)
    assert api.texts(42) == [str(number) for number in range(20)]
    assert statistics.median(latencies) < 0.05
