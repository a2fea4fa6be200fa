"""Latency that the Telegram channel adds, against the local Bot API: ``python tests/bench/bench_telegram.py [N]``.

Prints the median and the 99th percentile, in milliseconds, of: update handed to the server -> ``on_message`` called
(fetched, committed, archived); and outbox delivery of a one-part reply (two commits and one call).
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rightlab.clock import SystemClock
from rightlab.content import Part
from rightlab.conversation import Archive, Inbound, Inbox, Outbox
from rightlab.store import Store
from rightlab.telegram import TelegramChannel
from rightlab.testing import BotApi


class Everybody:
    def trusts(self, user_id: int) -> bool:
        return True

    def group(self, chat_id: int) -> None:
        return None


def line(name: str, seconds: list[float]) -> str:
    ordered = sorted(value * 1000 for value in seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"{name:24} n {len(ordered):5}  median {statistics.median(ordered):7.2f} ms  p99 {p99:7.2f} ms"


async def main(count: int) -> None:
    arrived: asyncio.Queue[tuple[Inbound, float]] = asyncio.Queue()

    async def on_message(message: Inbound) -> None:
        arrived.put_nowait((message, time.perf_counter()))

    with (
        BotApi() as api,
        tempfile.TemporaryDirectory() as folder,
        Store.open(Path(folder) / "data.db", role="owner") as store,
    ):
        clock = SystemClock()
        outbox = Outbox(store, clock)
        channel = TelegramChannel(
            token=api.token,
            api_base=api.base_url,
            store=store,
            inbox=Inbox(store, clock),
            archive=Archive(store, clock),
            allowlist=Everybody,
            on_message=on_message,
        )
        await channel.start()
        taken, sent = [], []
        for number in range(count):
            started = time.perf_counter()
            api.send_text(42, f"message {number}")
            _, at = await arrived.get()
            taken.append(at - started)
            started = time.perf_counter()
            outbox_id = outbox.enqueue(
                source="reply", chat_id=42, thread_id=0, parts=[Part(0, "text", f"reply {number}")]
            )
            done = await outbox.deliver(outbox_id, lambda part: channel.send(42, 0, part))
            sent.append(time.perf_counter() - started)
            assert done.state == "delivered"
        await channel.stop()
    print(line("update -> on_message", taken))
    print(line("enqueue -> delivered", sent))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
