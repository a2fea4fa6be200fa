"""The public stand-in gives what the real transport gives."""

import asyncio
import time
from typing import Any

import pytest

from rightlab.claude import (
    AssistantText,
    ClaudeTransport,
    Event,
    Init,
    Invocation,
    Result,
    ToolResult,
    ToolUse,
    failure_of,
    parse_cron,
    parse_reply,
    schema_for,
)
from rightlab.errors import TurnFailed, UsageError
from rightlab.testing.scripted_transport import Answer, Call, ScriptedTransport


def call(caller: str = "worker", **fields: Any) -> Invocation:
    return Invocation.of(caller, invocation_id="inv", **{"session_id": "s", **fields})


async def run(
    transport: ClaudeTransport, invocation: Invocation | None = None, stdin: str = "hi"
) -> list[Event]:
    return [event async for event in transport.run(invocation or call(), stdin=stdin)]


async def test_a_text_becomes_a_structured_reply() -> None:
    transport = ScriptedTransport("Hello.")
    events = await run(transport, stdin="the message")
    assert isinstance(events[0], Init)
    assert events[0].model == "claude-sonnet-5-5"
    result = events[-1]
    assert isinstance(result, Result)
    content = parse_reply(result).content
    assert content is not None
    assert content.plain_text() == "Hello."
    assert (result.num_turns, result.session_id) == (2, "s")
    assert result.cost_usd
    assert result.usage["output_tokens"] > 0
    assert transport.calls == [Call(0, call(), "the message", None)]


async def test_it_fits_the_invocations_schema() -> None:
    result = (await run(ScriptedTransport("Run."), call("cron")))[-1]
    assert parse_cron(result).delivery.kind == "notify"
    plain = (await run(ScriptedTransport("Plain."), Invocation("w", "i")))[-1]
    assert plain.structured_output is None
    assert plain.text == "Plain."


async def test_tools_text_and_exact_answers() -> None:
    answer = Answer(tools=[("Bash", {"command": "ls"}, "a.txt")], text="Only words.", thinking="hm")
    events = await run(ScriptedTransport([answer]))
    assert [event.name for event in events if isinstance(event, ToolUse)] == ["Bash"]
    assert [event.text for event in events if isinstance(event, ToolResult)] == ["a.txt"]
    assert [event.text for event in events if isinstance(event, AssistantText)] == ["Only words."]
    assert events[-1].structured_output is None
    exact = (await run(ScriptedTransport([{"content": None, "used_skill_receipts": []}])))[-1]
    assert parse_reply(exact).content is None


async def test_errors_and_exceptions() -> None:
    failure = failure_of((await run(ScriptedTransport([Answer(error=401)])))[-1])
    assert failure is not None
    assert failure.kind == "auth"
    with pytest.raises(TurnFailed, match="gone"):
        await run(ScriptedTransport([TurnFailed("cli", "gone")]))
    with pytest.raises(UsageError, match="no reply for run 1"):
        await run(ScriptedTransport([]))


async def test_costs_add_up_over_a_session_and_its_forks_only_in_the_total() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    transport = ScriptedTransport(lambda call: Answer(reply="x", usage=usage))
    first = (await run(transport))[-1]
    second = (await run(transport, call(resume=True)))[-1]
    fork = (await run(transport, call("background", session_id="f", fork_from="s")))[-1]
    assert [event.cost_usd for event in (first, second, fork)] == [2, 2, 2]
    assert [event.session_cost_usd for event in (first, second, fork)] == [2, 4, 6]


async def test_delays_timeouts_and_leaving() -> None:
    started = time.monotonic()
    transport = ScriptedTransport(lambda call: Answer(reply="x", delay=30))
    with pytest.raises(TurnFailed) as caught:
        await run(transport, call(timeout_s=0.05))
    assert caught.value.kind == "timeout"
    with pytest.raises(TurnFailed) as caught:
        await run(transport, call(first_progress_s=0.05))
    assert caught.value.kind == "no_progress"
    running = asyncio.create_task(run(transport))
    await asyncio.sleep(0.02)
    assert transport.running == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (transport.running, transport.ended) == (0, 3)
    assert time.monotonic() - started < 5


async def test_a_function_may_be_async_and_see_the_call() -> None:
    async def script(call: Call) -> str:
        await asyncio.sleep(0)
        return f"{call.number}: {call.stdin}"

    transport = ScriptedTransport(script)
    await run(transport)
    content = parse_reply((await run(transport, stdin="two"))[-1]).content
    assert content is not None
    assert content.plain_text() == "1: two"


def test_every_schema_gets_an_answer_that_fits() -> None:
    import jsonschema

    from rightlab.testing.scripted_transport import _in_schema

    for name in ("reply", "bootstrap", "cron", "background", "prefilter", "curator_plan"):
        jsonschema.validate(_in_schema(schema_for(name), "text"), schema_for(name))
