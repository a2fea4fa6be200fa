"""What is kept of the requests: hashes, breakpoints, usage; the cap; no credential anywhere (pains 10)."""

import hashlib
import json
import os

import orjson
import pytest

from rightlab.claude.gateway import Gateway
from rightlab.claude.recordings import redact
from rightlab.testing import ScriptedModel

KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"
CACHED = {"type": "ephemeral"}


def rich_body(text="hello", **extra):
    return {
        "model": "claude-sonnet-5-5",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "You are " + "x" * 5000, "cache_control": CACHED}],
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": text, "cache_control": CACHED}]}],
        **extra,
    }


async def test_files_hold_the_exact_body_and_its_facts(tmp_path, post):
    root = tmp_path / "recordings"
    async with Gateway(upstream="scripted:builtin", recordings=root) as gateway:
        for _ in range(2):
            await post(gateway, rich_body(stream=True), **{"X-Right-Invocation": "inv/../1"})
        await gateway.flush()
        first, second = gateway.requests("inv/../1")
    (folder,) = root.iterdir()
    assert folder.parent == root
    assert folder.name.endswith("Z-inv_.._1")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["0001.json", "0001.request.json", "0002.json", "0002.request.json"]
    raw = (folder / "0001.request.json").read_bytes()
    assert orjson.loads(raw) == rich_body(stream=True)
    facts = json.loads((folder / "0001.json").read_text())
    assert facts["request"]["sha256"] == hashlib.sha256(raw).hexdigest() == first.sha256
    assert facts["request"]["bytes"] == len(raw) == first.bytes
    assert facts["request"]["breakpoints"] == ["system[0]", "messages[0].content[0]"]
    assert [block["path"] for block in facts["request"]["blocks"]] == [
        "tools[0]",
        "system[0]",
        "messages[0].content[0]",
    ]
    assert facts["scripted"] is True
    assert facts["outcome"] == "complete"
    assert facts["response"]["content"][0]["type"] == "text"
    assert first.usage["cache_creation_input_tokens"] > 1000
    assert second.usage["cache_read_input_tokens"] == first.usage["cache_creation_input_tokens"]
    assert first.system_hashes == second.system_hashes
    assert len(first.tool_hashes) == len(first.message_hashes) == 1
    assert first.ms >= first.first_byte_ms > 0
    assert {os.stat(path).st_mode & 0o777 for path in folder.iterdir()} == {0o600}


async def test_block_hashes_do_not_move_with_the_breakpoints(post):
    plain = rich_body()
    del plain["system"][0]["cache_control"]
    async with Gateway(upstream="scripted:builtin") as gateway:
        await post(gateway, rich_body(), **{"X-Right-Invocation": "i"})
        await post(gateway, plain, **{"X-Right-Invocation": "i"})
        one, other = gateway.requests("i")
        assert one.system_hashes == other.system_hashes
        assert one.sha256 != other.sha256


async def test_pain_H17691_credentials_never_reach_the_recordings(tmp_path, post):
    """H#17691, H#19897, OC#5995: 24 credentials in 345 files. Ours are taken out when written."""
    root = tmp_path / "recordings"
    other = "sk-ant-oat01-SOMEBODYELSESTOKEN00"
    custom = "a-plain-looking-secret"
    with ScriptedModel([{"text": f"echo {custom} and {other}"}]) as model:
        async with Gateway(upstream=model.url, credential=lambda: custom, recordings=root) as gateway:
            text = f"my key is {custom}, and {other}, and {gateway.bearer}"
            await post(gateway, rich_body(text, stream=True), **{"X-Right-Invocation": "i"})
            await gateway.flush()
            (record,) = gateway.requests("i")
            bearer = gateway.bearer
    written = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert len(written) > 5000
    for secret in (custom, other, bearer):
        assert secret.encode() not in written
        assert secret.encode() not in record.body
        assert secret not in json.dumps(record.response)
    assert b"[redacted]" in written
    assert record.summary()["request"]["redacted"] is True
    assert custom in model.requests[0].raw.decode()


def test_redaction_leaves_short_and_foreign_words_alone():
    assert redact(b"a key is sk-ant and token", ["key"]) == b"a key is sk-ant and token"
    assert redact(b"\xff\xfe " + KEY.encode() + b" \xc3") == b"\xff\xfe [redacted] \xc3"


async def test_requests_without_an_invocation_go_by_their_session(post):
    async with Gateway(upstream="scripted:builtin") as gateway:
        await post(gateway, rich_body(), **{"X-Claude-Code-Session-Id": "session-1"})
        await post(gateway, rich_body())
        assert len(gateway.requests("session-1")) == 1
        assert [record.number for record in gateway.recent()] == [1, 2]


async def test_the_oldest_recordings_go_when_the_cap_is_reached(tmp_path, post):
    root = tmp_path / "recordings"
    async with Gateway(upstream="scripted:builtin", recordings=root, max_recording_bytes=40_000) as gateway:
        for number in range(12):
            await post(gateway, rich_body(), **{"X-Right-Invocation": f"inv-{number:02d}"})
            await gateway.flush()
    kept = sorted(root.iterdir())
    assert 0 < sum(path.stat().st_size for path in root.rglob("*.json")) <= 40_000
    assert kept[-1].name.endswith("inv-11")
    assert not any(folder.name.endswith("inv-00") for folder in kept)


async def test_the_cap_counts_what_an_earlier_run_left(tmp_path, post):
    root = tmp_path / "recordings"
    old = root / "20200101T000000.000000Z-old"
    old.mkdir(parents=True)
    (old / "0001.json").write_bytes(b"x" * 39_000)
    async with Gateway(upstream="scripted:builtin", recordings=root, max_recording_bytes=40_000) as gateway:
        await post(gateway, rich_body(), **{"X-Right-Invocation": "new"})
        await gateway.flush()
    assert [folder.name.rpartition("-")[2] for folder in root.iterdir()] == ["new"]


async def test_a_disk_that_fails_stops_the_recording_not_the_answer(tmp_path, post):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    async with Gateway(upstream="scripted:builtin", recordings=blocked / "recordings") as gateway:
        answer = await post(gateway, rich_body(), **{"X-Right-Invocation": "i"})
        assert answer.status_code == 200
        await gateway.flush()
        assert "recording stopped" in gateway.describe()
        assert (await post(gateway, rich_body())).status_code == 200
        assert len(gateway.requests("i")) == 1


async def test_the_index_in_memory_is_bounded(monkeypatch, post):
    monkeypatch.setattr("rightlab.claude.recordings._MAX_INDEXED", 5)
    async with Gateway(upstream="scripted:builtin") as gateway:
        for number in range(9):
            await post(gateway, rich_body(), **{"X-Right-Invocation": f"i{number}"})
        assert len(gateway.recent()) == 5
        assert gateway.requests("i0") == []
        assert gateway.requests("i8")


@pytest.mark.parametrize("raw", [b"", b"no json", b"[1]", b'{"messages": 3, "system": 4}'])
async def test_bodies_that_are_no_requests_are_recorded_and_refused(client, raw):
    async with Gateway(upstream="scripted:builtin") as gateway:
        headers = {"x-api-key": gateway.bearer, "X-Right-Invocation": "i"}
        answer = await client.post(f"{gateway.url}/v1/messages", content=raw, headers=headers)
        assert answer.status_code == 400
        (record,) = gateway.requests("i")
        assert record.status == 400
        assert record.blocks == ()
        record.summary()
