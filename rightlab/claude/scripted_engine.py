"""The engine behind scripted upstreams: a Messages API that answers by a script."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from rightlab.claude.messages_api import ApiError, check_request
from rightlab.claude.reply import Reply
from rightlab.claude.request_blocks import canonical, estimate_tokens
from rightlab.claude.scripted import Action, Script, UsageNumbers
from rightlab.claude.scripted_builtin import BuiltinPersona
from rightlab.claude.scripted_request import Seen
from rightlab.claude.scripted_usage import CacheSimulator, with_numbers
from rightlab.claude.scripted_wire import Answer
from rightlab.clock import Clock, SystemClock

__all__ = ["ScriptEngine"]


class ScriptEngine:
    """Answers Messages and ``count_tokens`` requests by ``script``. One per server; used on one loop."""

    def __init__(self, script: Script, clock: Clock | None = None) -> None:
        self.script = script
        self._clock: Clock = clock or SystemClock()
        self._cache = CacheSimulator(self._clock)
        self._persona = BuiltinPersona()
        self._used: Counter[int] = Counter()
        self._requests = 0

    def count(self, raw: bytes) -> ApiError | bytes:
        """The JSON body of a ``count_tokens`` answer, or the refusal."""
        body = _parse(raw)
        problem = check_request(body, counting=True)
        return problem or orjson.dumps({"input_tokens": self._cache.count(body)})

    def answer(self, raw: bytes) -> Answer | ApiError:
        """The answer to a Messages request body, or the API's refusal of the body."""
        body = _parse(raw)
        problem = check_request(body)
        if problem is not None:
            return problem
        self._requests += 1
        seen = Seen(body, self._requests)
        action, groups = self._choose(seen)
        if action is None:
            return ApiError(
                400,
                f"scripted model: no rule of {self.script.name!r} matches step {seen.step} of "
                f"{seen.text[:80]!r}. Add a rule, or otherwise: builtin.",
                should_retry=False,
            )
        return self._build(seen, action, groups)

    def _choose(self, seen: Seen) -> tuple[Action | None, Sequence[str]]:
        for index, rule in enumerate(self.script.rules):
            if rule.times is not None and self._used[index] >= rule.times:
                continue
            groups = rule.match.groups(seen)
            if groups is not None:
                used = self._used[index]
                self._used[index] += 1
                return rule.action(seen, used), groups
        return (self._persona.action(seen) if self.script.otherwise == "builtin" else None), ()

    def _build(self, seen: Seen, action: Action, groups: Sequence[str]) -> Answer:
        content = action.content(seen, groups)
        calls = any(block["type"] == "tool_use" for block in content)
        answer = Answer(
            model=seen.model,
            content=content,
            stop_reason=action.stop_reason or ("tool_use" if calls else "end_turn"),
            delay=action.delay,
            chunk=action.chunk,
            pace=action.pace,
            error=action.error.api_error() if action.error else None,
            error_in_stream=bool(action.error and action.error.in_stream),
            drop=action.drop,
        )
        if answer.error is None or answer.error_in_stream:
            usage = self._cache.charge(seen.body, estimate_tokens(canonical(content)))
            for numbers in (self.script.usage, action.usage):
                usage = with_numbers(usage, _given(numbers))
            answer.usage = usage
        return answer

    async def respond(self, path: str, raw: bytes, reply: Reply) -> None:
        """Answer one request whose body is ``raw``; ``path`` is one of the two the API has."""
        if path.endswith("/count_tokens"):
            result = self.count(raw)
            if isinstance(result, ApiError):
                await reply.error(result)
            else:
                await reply.whole(200, [(b"content-type", b"application/json")], result)
            return
        answer = self.answer(raw)
        if isinstance(answer, ApiError):
            await reply.error(answer)
            return
        await answer.send(reply, self._clock, stream=_parse(raw).get("stream") is True)


def _parse(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None


def _given(numbers: UsageNumbers | None) -> Mapping[str, int]:
    return {} if numbers is None else numbers.model_dump(exclude_none=True)
