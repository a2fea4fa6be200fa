"""The prompt registry: layered sections, tools, variables and tail contexts; one way to assemble them.

Behaviour of the seed ``dsh-system-prompt`` (spec prompt-registry 1) with the departures of its section 6.4:
ties by name, finite orders, literal text, typed errors with owners, guarded waterfall, text-only values,
named anchors, and a check that reports everything at once.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from rightlab.errors import PromptError
from rightlab.prompt.assembly import Assembly, Problem
from rightlab.prompt.build import BLOCKED_SECONDS, Build
from rightlab.prompt.handle import Handle
from rightlab.prompt.layers import GLOBAL, Layers
from rightlab.prompt.offloop import Blocked, in_thread
from rightlab.prompt.tools import check_tool_order
from rightlab.prompt.waterfall import run_waterfall

__all__ = ["IDENTITY_SECTION", "PERSONA_SECTION", "Problems", "PromptRegistry"]

IDENTITY_SECTION = "harness:identity"
IDENTITY_ORDER = -100
PERSONA_SECTION = "deployment:persona"
PERSONA_ORDER = 0
DEFAULT_IDENTITY = "You are an agent that works inside rightlab."

T = TypeVar("T")


class Problems(list[Problem]):
    """The list :meth:`PromptRegistry.check` answers; awaiting it gives itself."""

    def __await__(self) -> Generator[None, None, "Problems"]:
        yield from ()
        return self


class PromptRegistry(Handle):
    """Sections, tools, variables and tail contexts of one harness; itself the global handle.

    ``persona`` is the deployment's own template (section ``deployment:persona``, order 0, registered even when
    empty, which reserves the name). ``tool_order`` lists tool names with one ``TOOL_ORDER_REST`` entry.
    ``identity`` is the opener ``harness:identity`` (order -100); ``None`` leaves it out. With
    ``include_contexts=False`` no assembly has tail contexts and their providers are never called.

    Raises :class:`PromptError` (code ``tool_order``) for a bad ``tool_order``.
    """

    def __init__(
        self,
        *,
        persona: str | Callable[[Any], str] = "",
        tool_order: Sequence[str] | None = None,
        identity: str | Callable[[Any], str] | None = DEFAULT_IDENTITY,
        include_contexts: bool = True,
    ) -> None:
        self._tool_order = check_tool_order(tool_order)
        self._stuck: dict[int, threading.Thread] = {}
        super().__init__(Layers(), GLOBAL)
        if identity is not None:
            self.section(IDENTITY_SECTION, IDENTITY_ORDER, identity, owner="rightlab")
        self.section(PERSONA_SECTION, PERSONA_ORDER, persona, owner="deployment")
        if not include_contexts:
            self.suppress_contexts()

    async def assemble(
        self, context: Mapping[str, Any] | Any | None = None, *, timeout: float | None = 30.0
    ) -> Assembly:
        """The assembly for ``context``: the global layer and that of ``context["scope"]``, then the listeners.

        ``context`` is a mapping or an object; every provider and listener gets this same object. ``root`` in it
        is the folder files are read from (none: all files are missing), ``mode`` is copied to the assembly.
        ``timeout`` (seconds) bounds the listeners. Providers run beside the loop; one that does not return within
        ten seconds counts as failed (code timeout) until it does.

        Raises :class:`PromptError`, always when awaited: provider_failed, bad_text, bad_value, bad_tools,
        tool_order, reserved, complete_conflict, anchor_cycle, anchor_conflict, anchor_unknown,
        listener_failed, listener_empty, next_twice, timeout. A broken template is raised by ``render()``.
        """
        return await self._assemble({} if context is None else context, timeout, lenient=False)

    def assemble_now(
        self, context: Mapping[str, Any] | Any | None = None, *, timeout: float | None = 30.0
    ) -> Assembly:
        """:meth:`assemble` for callers that cannot await, also inside a running loop (a notebook cell)."""
        return _finish(lambda: self.assemble(context, timeout=timeout))

    def check(self, context: Mapping[str, Any] | Any | None = None) -> Problems:
        """Assemble for ``context`` and render, and report every problem instead of stopping at the first.

        The answer is a list; ``await registry.check(context)`` gives the same list.
        """
        given = {} if context is None else context
        assembly = _finish(lambda: self._assemble(given, 30.0, lenient=True))
        found = Problems(assembly.problems)
        for section in assembly.sections:
            try:
                section.render_bytes()
            except PromptError as error:
                found.append(Problem.of(error))
        try:
            assembly.render_contexts()
        except PromptError as error:
            found.append(Problem.of(error))
        return found

    async def _assemble(self, context: Any, timeout: float | None, *, lenient: bool) -> Assembly:
        build, assembly = await self._built(context, lenient)
        original = list(assembly.sections)
        complete = build.complete()
        listeners = self._layers.listeners(build.key)
        if listeners:
            assembly = await run_waterfall(listeners, assembly, context, timeout, build.fail)
        return build.finish(assembly, original, complete)

    async def _built(self, context: Any, lenient: bool) -> tuple[Build, Assembly]:
        """The assembly before the waterfall. A provider that blocks is given up and then fails like any other."""
        while True:
            self._stuck = {key: thread for key, thread in self._stuck.items() if thread.is_alive()}
            build = Build(self._layers, context, lenient=lenient, stuck=frozenset(self._stuck))
            try:
                return build, await in_thread(partial(build.assembly, self._tool_order), BLOCKED_SECONDS)
            except Blocked as blocked:
                if not build.calling:
                    raise PromptError(
                        f"the prompt could not be assembled within {BLOCKED_SECONDS:g} s; its files do not answer",
                        code="timeout",
                    ) from None
                self._stuck[build.calling] = blocked.thread


def _finish(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from synchronous code, whether or not a loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    outcome: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(start()))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="rightlab-assemble", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
