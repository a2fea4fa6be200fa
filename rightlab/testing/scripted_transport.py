"""A Claude transport without the CLI: the typed events of a run, from replies you give.

::

    transport = ScriptedTransport(["Hi.", Answer(tools=[("Bash", {"command": "date"})], reply="It is noon.")])
    ...                                   # hand it to what takes a ClaudeTransport
    assert transport.calls[0].stdin == "hello"
"""

import asyncio
import inspect
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rightlab.claude import Event, Invocation, parse_line
from rightlab.errors import TurnFailed, UsageError
from rightlab.usage import price, resolve_model

__all__ = ["Answer", "Call", "ScriptedTransport"]

Json = dict[str, Any]
_STEP = 0.01


@dataclass(frozen=True)
class Answer:
    """What one run says.

    ``reply`` is a text, or rich content, put into the schema the invocation asks for; ``structured`` the
    exact structured output instead; ``text`` plain assistant text and no structured output. ``tools`` are
    calls before it as (name, input) or (name, input, result). ``delay`` in seconds, before the first word.
    ``error`` is the status of a failed request, ``raises`` an exception in place of a result. ``usage`` is
    in the API's words; what is missing is estimated.
    """

    reply: str | Mapping[str, Any] | None = None
    structured: Any = None
    text: str | None = None
    thinking: str | None = None
    tools: Sequence[tuple[Any, ...]] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    delay: float = 0.0
    error: int | None = None
    error_text: str | None = None
    raises: BaseException | None = None
    mcp_status: str = "connected"


@dataclass(frozen=True)
class Call:
    """One run as it was asked for; ``number`` from 0."""

    number: int
    invocation: Invocation
    stdin: str
    command: tuple[str, ...] | None


ReplyLike = Answer | str | Mapping[str, Any] | BaseException | Sequence[Event]
Script = Callable[[Call], "ReplyLike | Awaitable[ReplyLike]"]


class ScriptedTransport:
    """A :class:`rightlab.claude.ClaudeTransport` that answers by ``script``.

    ``script``: one text (said every time), a list with one reply per run, or a function of the
    :class:`Call` (plain or async). A reply is a text, a mapping (the exact structured output), an
    :class:`Answer`, an exception to raise, or a list of events to give as they are. ``calls`` holds every
    run so far, ``running`` how many are going on now, ``ended`` how many were left before their result.

    Raises (from ``run``):
        UsageError: the list has no reply left.
    """

    def __init__(self, script: str | Sequence[ReplyLike] | Script = "ok", *, model: str = "sonnet") -> None:
        self.calls: list[Call] = []
        self.running = 0
        self.ended = 0
        self._script = script
        self._model = model
        self._totals: dict[str, float] = {}

    async def run(
        self,
        invocation: Invocation,
        *,
        stdin: str,
        command: Sequence[str] | None = None,
        timeout: float | None = None,
        first_progress: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The events of one run, as of :meth:`rightlab.claude.ClaudeTransport.run`."""
        call = Call(len(self.calls), invocation, stdin, None if command is None else tuple(command))
        self.calls.append(call)
        limit = timeout if timeout is not None else invocation.timeout_s
        first = first_progress if first_progress is not None else invocation.first_progress_s
        self.running += 1
        finished = False
        try:
            reply = await self._reply(call)
            if isinstance(reply, BaseException):
                raise reply
            if not isinstance(reply, Answer):
                for event in reply:
                    yield event
            else:
                async for event in self._say(call, reply, limit, first):
                    yield event
            finished = True
        finally:
            self.running -= 1
            self.ended += not finished

    async def _reply(self, call: Call) -> Answer | BaseException | Sequence[Event]:
        given: Any
        if callable(self._script):
            given = self._script(call)
            if inspect.isawaitable(given):
                given = await given
        elif isinstance(self._script, str):
            given = self._script
        elif call.number < len(self._script):
            given = self._script[call.number]
        else:
            raise UsageError(f"the script has no reply for run {call.number + 1}", fix="Add one to its list.")
        if isinstance(given, str):
            return Answer(reply=given)
        if isinstance(given, Mapping):
            return Answer(structured=dict(given))
        if isinstance(given, (Answer, BaseException)):
            return given
        return list(given)

    async def _say(
        self, call: Call, answer: Answer, limit: float | None, first: float | None
    ) -> AsyncGenerator[Event, None]:
        session = call.invocation.session_id or str(uuid.uuid4())
        model = resolve_model(call.invocation.model or self._model)
        for event in _events(_init(session, model, call.invocation, answer)):
            yield event
        bounds = [
            (seconds, kind) for seconds, kind in ((limit, "timeout"), (first, "no_progress")) if seconds
        ]
        soonest = min(bounds, default=None)
        if soonest is not None and answer.delay > soonest[0]:
            await asyncio.sleep(soonest[0])
            raise TurnFailed(soonest[1], f"the turn had no answer within {soonest[0]:g} s")
        await asyncio.sleep(answer.delay)
        if answer.raises is not None:
            raise answer.raises
        for line in self._lines(call, answer, session, model):
            for event in _events(line):
                yield event
                await asyncio.sleep(0)

    def _lines(self, call: Call, answer: Answer, session: str, model: str) -> Iterator[Json]:
        message = f"msg_{uuid.uuid4().hex[:12]}"

        def said(block: Json, **more: Any) -> Json:
            body = {"id": message, "role": "assistant", "model": model, "content": [block]}
            return {"type": "assistant", "message": body, "session_id": session, **more}

        def given(tool_id: str, text: str) -> Json:
            block = {"type": "tool_result", "tool_use_id": tool_id, "content": text}
            return {"type": "user", "message": {"role": "user", "content": [block]}, "session_id": session}

        if answer.error is not None:
            text = answer.error_text or f"API Error: {answer.error} scripted"
            yield said({"type": "text", "text": text}, is_api_error_message=True)
            yield self._result(call, answer, session, model, text=text)
            return
        if answer.thinking is not None:
            yield said({"type": "thinking", "thinking": answer.thinking})
        for name, tool_input, *result in answer.tools:
            tool_id = f"toolu_{uuid.uuid4().hex[:12]}"
            yield said({"type": "tool_use", "id": tool_id, "name": name, "input": tool_input})
            yield given(tool_id, str(result[0]) if result else "done")
        if answer.text is not None:
            yield said({"type": "text", "text": answer.text})
        structured = answer.structured
        if structured is None and answer.reply is not None and call.invocation.schema is not None:
            structured = _in_schema(call.invocation.schema, answer.reply)
        text = answer.text or ""
        if structured is not None:
            tool_id = f"toolu_{uuid.uuid4().hex[:12]}"
            yield said({"type": "tool_use", "id": tool_id, "name": "StructuredOutput", "input": structured})
            yield given(tool_id, "Structured output provided successfully")
            text = json.dumps(structured, ensure_ascii=False, separators=(",", ":"))
        elif answer.reply is not None and answer.text is None:
            text = answer.reply if isinstance(answer.reply, str) else json.dumps(answer.reply)
            yield said({"type": "text", "text": text})
        yield self._result(call, answer, session, model, text=text, structured=structured)

    def _result(
        self, call: Call, answer: Answer, session: str, model: str, *, text: str, structured: Any = None
    ) -> Json:
        failed = answer.error is not None
        usage = _usage(call, answer, text, failed)
        cost = price(model, usage)
        before = self._totals.get(call.invocation.fork_from or session, 0.0)
        self._totals[session] = before + (cost or 0.0)
        split = usage["cache_creation"]
        entry = {
            "inputTokens": usage["input_tokens"],
            "outputTokens": usage["output_tokens"],
            "cacheReadInputTokens": usage["cache_read_input_tokens"],
            "cacheCreationInputTokens": usage["cache_creation_input_tokens"],
            "cacheCreationEphemeral5mInputTokens": split["ephemeral_5m_input_tokens"],
            "cacheCreationEphemeral1hInputTokens": split["ephemeral_1h_input_tokens"],
            "costUSD": cost or 0.0,
            "costBasis": "unknown" if cost is None else "list",
        }
        return {
            "type": "result",
            "subtype": "success",
            "is_error": failed,
            "api_error_status": answer.error,
            "terminal_reason": "api_error" if failed else "completed",
            "result": text,
            "structured_output": structured,
            "session_id": session,
            "num_turns": 1 if failed else 1 + len(answer.tools) + (structured is not None),
            "usage": usage,
            "model_usage_since_last_result": {} if failed else {model: entry},
            "total_cost_usd": self._totals[session],
            "duration_ms": round(1000 * (answer.delay + _STEP)),
            "duration_api_ms": round(1000 * (answer.delay + _STEP)),
            "ttft_ms": round(1000 * answer.delay),
            "permission_denials": [],
            "uuid": str(uuid.uuid4()),
        }


def _events(line: Json) -> list[Event]:
    return parse_line(json.dumps(line))


def _init(session: str, model: str, invocation: Invocation, answer: Answer) -> Json:
    servers = [{"name": "right", "status": answer.mcp_status}] if invocation.mcp_config else []
    return {
        "type": "system",
        "subtype": "init",
        "session_id": session,
        "model": model,
        "tools": [*(invocation.tools or ()), *(["StructuredOutput"] if invocation.schema else [])],
        "mcp_servers": servers,
        "apiKeySource": "none",
        "claude_code_version": "scripted",
    }


def _in_schema(schema: Mapping[str, Any], reply: str | Mapping[str, Any]) -> Json:
    """``reply`` as the least answer that ``schema`` takes."""
    content = {"text": reply} if isinstance(reply, str) else dict(reply)
    names = schema.get("properties", {})
    if "delivery" in names:
        return {"delivery": {"kind": "notify", "content": content}, "run_note": "scripted"}
    if "bootstrap_stage" in names:
        return {"content": content, "bootstrap_complete": False, "bootstrap_stage": "user_name"}
    if "decision" in names:
        return {"decision": "skip", "reason": str(reply)[:400]}
    if "actions" in names:
        return {"actions": []}
    return {"content": content, "used_skill_receipts": []}


def _usage(call: Call, answer: Answer, text: str, failed: bool) -> Json:
    given = {} if failed else answer.usage
    estimate = 0 if failed else 1
    five = given.get("cache_write_5m_tokens", 0)
    hour = given.get("cache_write_1h_tokens", 0)
    return {
        "input_tokens": given.get("input_tokens", estimate * (1 + len(call.stdin.encode()) // 4)),
        "output_tokens": given.get("output_tokens", estimate * (1 + len(text.encode()) // 4)),
        "cache_read_input_tokens": given.get("cache_read_input_tokens", 0),
        "cache_creation_input_tokens": given.get("cache_creation_input_tokens", five + hour),
        "cache_creation": {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    }
