"""The scripted answers on the wire, read by an ordinary client; usage with the cache simulated."""

import json
from datetime import UTC, datetime

import httpx
import orjson
import pytest

from rightlab.claude.gateway import Gateway
from rightlab.claude.response_reader import ResponseReader
from rightlab.claude.scripted_usage import CacheSimulator
from rightlab.claude.scripted_wire import Answer, stream_events
from rightlab.errors import GatewayError
from rightlab.testing import ScriptedModel

HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
ALL = {
    "thinking": "let me see",
    "text": "Grüße 👋 " * 20,
    "tools": [{"name": "Bash", "input": {"command": "echo ä", "n": [1, {"x": None}]}}],
    "usage": {"input": 1, "output": 2, "cache_read": 3, "cache_write_5m": 4, "cache_write_1h": 5},
}


def body(text="hi", **extra):
    return {"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": text}], **extra}


def post(model, document, path="/v1/messages", headers=HEADERS):
    return httpx.post(model.url + path, json=document, headers=headers, timeout=10, trust_env=False)


def events(answer):
    frames = [frame for frame in answer.text.split("\n\n") if frame]
    names = [frame.split("\n")[0].removeprefix("event: ") for frame in frames]
    data = [json.loads(frame.split("\n")[1].removeprefix("data: ")) for frame in frames]
    assert names == [item["type"] for item in data]
    return data


def test_streamed_and_whole_answers_are_the_same_message():
    with ScriptedModel([ALL]) as model:
        whole = post(model, body()).json()
        answer = post(model, body(stream=True))
    assert answer.headers["content-type"].startswith("text/event-stream")
    reader = ResponseReader()
    reader.start(200, {"content-type": "text/event-stream"})
    for position in range(0, len(answer.content), 7):
        reader.feed(answer.content[position : position + 7])
    reader.end()
    assert reader.complete
    for content in (whole["content"], reader.message["content"]):
        for block in content:
            block.pop("id", None)
    assert reader.message["content"] == whole["content"]
    assert reader.message["stop_reason"] == whole["stop_reason"] == "tool_use"
    assert reader.usage == whole["usage"]
    assert whole["usage"]["cache_creation"] == {
        "ephemeral_5m_input_tokens": 4,
        "ephemeral_1h_input_tokens": 5,
    }
    assert whole["usage"]["cache_creation_input_tokens"] == 9
    assert whole["model"] == "m-1"


def test_the_order_of_events():
    with ScriptedModel([{"text": "abcdef", "chunk": 2}]) as model:
        data = events(post(model, body(stream=True)))
    assert [item["type"] for item in data] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert data[0]["message"]["usage"]["output_tokens"] == 1
    assert data[0]["message"]["stop_reason"] is None
    assert data[-2]["delta"]["stop_reason"] == "end_turn"


def test_an_error_in_the_stream():
    with ScriptedModel([{"text": "x" * 200, "error": {"status": 529, "in_stream": True}}]) as model:
        answer = post(model, body(stream=True))
        assert answer.status_code == 200
        assert events(answer)[-1]["error"]["type"] == "overloaded_error"
        assert post(model, body()).status_code == 529


@pytest.mark.parametrize("drop", ["start", "middle"])
@pytest.mark.parametrize("stream", [True, False])
def test_cut_connections(drop, stream):
    with (
        ScriptedModel([{"text": "x" * 500, "drop": drop}]) as model,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        post(model, body(stream=stream))


def test_count_tokens():
    with ScriptedModel() as model:
        small = post(model, body(), "/v1/messages/count_tokens").json()["input_tokens"]
        large = post(model, body("word " * 1000), "/v1/messages/count_tokens").json()["input_tokens"]
        assert 0 < small < 40
        assert 1000 < large < 2000
        document = body()
        del document["max_tokens"]
        assert post(model, document, "/v1/messages/count_tokens").status_code == 200
        assert post(model, {}, "/v1/messages/count_tokens").status_code == 400


def test_credentials_are_checked_as_the_api_does():
    with ScriptedModel(credential="right-one") as model:
        for headers, status in (
            ({}, 401),
            ({"x-api-key": "wrong"}, 401),
            ({"authorization": "Bearer wrong"}, 401),
            ({"x-api-key": "right-one"}, 200),
            ({"authorization": "Bearer right-one"}, 200),
        ):
            answer = post(model, body(), headers={"anthropic-version": "1", **headers})
            assert answer.status_code == status
            if status == 401:
                assert answer.json()["error"]["type"] == "authentication_error"
        assert post(model, body(), headers={"x-api-key": "right-one"}).status_code == 400
        assert len(model.requests) == 6
        assert model.requests[0].body == body()


def test_other_paths_and_methods():
    with ScriptedModel() as model:
        assert post(model, body(), "/v1/complete").status_code == 404
        assert httpx.get(model.url + "/v1/messages", trust_env=False).status_code == 405


def test_starts_and_stops_twice_and_tells_a_taken_port():
    model = ScriptedModel()
    assert model.url == ""
    model.start()
    url = model.start().url
    assert url.startswith("http://127.0.0.1:")
    with pytest.raises(GatewayError, match="cannot listen"):
        ScriptedModel(port=int(url.rpartition(":")[2])).start()
    model.stop()
    model.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


async def test_a_frozen_clock_makes_slow_answers_instant(client):
    class Clock:
        slept = 0.0

        def now(self):
            return datetime(2026, 1, 1, tzinfo=UTC)

        def monotonic(self):
            return 0.0

        async def sleep(self, seconds):
            self.slept += seconds

    clock = Clock()
    async with Gateway(upstream="scripted:builtin", clock=clock) as gateway:
        headers = {"x-api-key": gateway.bearer}
        answer = await client.post(f"{gateway.url}/v1/messages", json=body("slow 50"), headers=headers)
        assert answer.status_code == 200
    assert clock.slept == 50


class Ticks:
    def __init__(self):
        self.time = 0.0

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self):
        return self.time

    async def sleep(self, seconds):
        self.time += seconds


def cached(*texts, ttl=None, mark=(0,), tail="hi"):
    control = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    system = [
        {"type": "text", "text": text, **({"cache_control": control} if number in mark else {})}
        for number, text in enumerate(texts)
    ]
    return {"model": "m", "max_tokens": 1, "system": system, "messages": [{"role": "user", "content": tail}]}


LONG = "alpha beta gamma " * 400


def test_the_cache_writes_once_and_reads_after():
    cache = CacheSimulator(Ticks())
    first = cache.charge(cached(LONG), 5)
    second = cache.charge(cached(LONG, tail="something else"), 5)
    assert first.cache_read == 0
    assert first.cache_write_5m > 1024
    assert second.cache_read == first.cache_write_5m
    assert second.cache_write_5m == 0
    assert first.prompt - first.input == second.prompt - second.input


def test_a_changed_section_is_written_again_and_the_stable_prefix_read():
    cache = CacheSimulator(Ticks())
    cache.charge(cached(LONG, LONG + "one", mark=(0, 1)), 5)
    usage = cache.charge(cached(LONG, LONG + "two", mark=(0, 1)), 5)
    assert usage.cache_read > 1024
    assert usage.cache_write_5m > 1024
    none = cache.charge(cached("X" + LONG, LONG + "two", mark=(0, 1)), 5)
    assert none.cache_read == 0


def test_pain_H15866_a_clock_in_front_kills_the_cache():
    """H#15866: volatile text near the start, and nothing is ever read."""
    cache = CacheSimulator(Ticks())
    reads = [cache.charge(cached(f"12:00:{n:02d} " + LONG), 5).cache_read for n in range(5)]
    assert reads == [0] * 5


@pytest.mark.parametrize(("ttl", "alive"), [(None, 299), ("1h", 3599)])
def test_entries_expire_and_are_kept_alive_by_reads(ttl, alive):
    clock = Ticks()
    cache = CacheSimulator(clock)
    cache.charge(cached(LONG, ttl=ttl), 5)
    for _ in range(3):
        clock.time += alive
        assert cache.charge(cached(LONG, ttl=ttl), 5).cache_read > 0
    clock.time += alive + 2
    assert cache.charge(cached(LONG, ttl=ttl), 5).cache_read == 0


def test_pain_CU899_one_hour_writes_are_told_apart():
    """CU#899: one-hour writes priced as five-minute ones."""
    document = cached(LONG, ttl="1h")
    document["messages"] = [
        {"role": "user", "content": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]}
    ]
    usage = CacheSimulator(Ticks()).charge(document, 5)
    assert usage.cache_write_1h > 1024
    assert usage.cache_write_5m > 1024
    api = usage.to_api()
    assert api["cache_creation_input_tokens"] == usage.cache_write_1h + usage.cache_write_5m


def test_short_prefixes_are_not_cached():
    cache = CacheSimulator(Ticks())
    for _ in range(2):
        usage = cache.charge(cached("short"), 5)
        assert (usage.cache_read, usage.cache_write_5m) == (0, 0)
        assert usage.input > 0


def test_other_models_share_nothing():
    cache = CacheSimulator(Ticks())
    cache.charge(cached(LONG), 5)
    assert cache.charge({**cached(LONG), "model": "other"}, 5).cache_read == 0


def test_frames_are_json_of_one_line():
    answer = Answer(model="m", content=[{"type": "text", "text": "a\nb\n\nc"}])
    for frame in stream_events(answer):
        head, data, *rest = frame.split(b"\n")
        assert head.startswith(b"event: ")
        assert orjson.loads(data.removeprefix(b"data: "))
        assert rest == [b"", b""]
