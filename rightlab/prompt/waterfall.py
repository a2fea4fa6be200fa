"""The assemble waterfall: listeners around listeners, each asked once (spec prompt-registry 1.5)."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

from rightlab.errors import PromptError
from rightlab.prompt.assembly import Assembly
from rightlab.prompt.layers import Listener

__all__ = ["Next", "run_waterfall"]


class _Answer:
    """What ``next()`` returns: awaiting it runs the listeners further in. Dropping it costs nothing."""

    def __init__(self, run: Callable[[], Awaitable[Assembly]]) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, Assembly]:
        return self._run().__await__()


class Next:
    """The third argument of a listener. A second call raises ``next_twice``."""

    def __init__(self, run: Callable[[], Awaitable[Assembly]], owner: str) -> None:
        self._run = run
        self._owner = owner
        self._called = False
        self.result: Assembly | None = None

    def __call__(self) -> Awaitable[Assembly]:
        if self._called:
            raise PromptError(
                "an assemble listener called next() twice",
                code="next_twice",
                owner=self._owner,
                fix="Keep the result of the first call.",
            )
        self._called = True
        return _Answer(self._inner)

    async def _inner(self) -> Assembly:
        if self.result is None:
            self.result = await self._run()
        return self.result


async def run_waterfall(
    listeners: Sequence[Listener],
    assembly: Assembly,
    context: Any,
    timeout: float | None,
    fail: Callable[[PromptError, bool], None],
) -> Assembly:
    """The outermost listener's answer. ``fail(error, required)`` raises, or records and lets us go on.

    A listener that failed and was forgiven is passed over: what it got from ``next()``, else what it would
    have got, takes its place.
    """
    active: list[str] = []

    async def step(index: int) -> Assembly:
        if index == len(listeners):
            return assembly
        listener = listeners[index]
        following = Next(lambda: step(index + 1), listener.owner)
        active.append(listener.owner)
        try:
            answer = listener.call(assembly, context, following)
            if inspect.isawaitable(answer):
                answer = await answer
            _check(answer, listener.owner)
        except Exception as error:
            active.pop()
            fail(_named(error, listener.owner), listener.required)
            return following.result if following.result is not None else await step(index + 1)
        active.pop()
        return answer  # type: ignore[no-any-return]  # _check saw to it

    try:
        async with asyncio.timeout(timeout):
            return await step(0)
    except TimeoutError as error:
        who = active[-1] if active else "?"
        raise PromptError(
            f"the assemble listener of {who} did not answer within {timeout:g} s", code="timeout", owner=who
        ) from error


def _check(answer: object, owner: str) -> None:
    if answer is None:
        raise PromptError(
            "an assemble listener returned nothing",
            code="listener_empty",
            owner=owner,
            fix="Return the assembly, or the result of next().",
        )
    if not isinstance(answer, Assembly):
        raise PromptError(
            f"an assemble listener returned {type(answer).__name__}, not an assembly",
            code="listener_empty",
            owner=owner,
        )


def _named(error: Exception, owner: str) -> PromptError:
    if isinstance(error, PromptError):
        return error
    named = PromptError(
        f"the assemble listener of {owner} failed: {type(error).__name__}: {error}",
        code="listener_failed",
        owner=owner,
    )
    named.__cause__ = error
    return named
