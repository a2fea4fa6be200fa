"""Recorded requests beside a prompt that is being edited: what is in the cache, and what an edit does to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from rightlab.errors import UsageError
from rightlab.home import AgentHome
from rightlab.html import money, tokens, zone
from rightlab.prompt import Assembly
from rightlab.prompt.assembly import AssembledSection

if TYPE_CHECKING:
    from rightlab.prompt.inspect import Divergence, Lint, Stability, WhatIf

__all__ = ["NO_EFFECT", "Effect", "Traffic", "sections_of_turn"]

REQUESTS = 200
TURNS = 50


@dataclass(frozen=True)
class Effect:
    """What the next turn would find in the cache.

    ``now`` and ``then``: share of the prompts that began as before, as it was and with the edits. ``breaks``: the
    last recorded request against itself with the edits. ``cached``: in words, per section.
    """

    now: float | None = None
    then: float | None = None
    breaks: "Divergence | None" = None
    cached: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What the edits cost once; empty without edits or recordings."""
        if not self.breaks:
            return ""
        price = f", {money(self.breaks.cost_usd)}" if self.breaks.cost_usd is not None else ", price unknown"
        return f"The next turn writes about {tokens(self.breaks.tokens_rewritten)} tokens again{price}, once."


NO_EFFECT = Effect()


@dataclass(frozen=True)
class Traffic:
    """The last recorded requests of one mode; ``turns`` are the numbers of all recorded turns, oldest first."""

    mark: object = None
    n: int = 0
    what_if: "WhatIf | None" = None
    history: Mapping[str, "Stability"] = field(default_factory=dict)
    turns: tuple[int, ...] = ()
    scripted: bool = False

    def again(self, agent: AgentHome, mode: str) -> "Traffic":
        """This, or what was recorded since it was read."""
        mark = (mode, _newest(agent))
        return self if mark == self.mark else _read(agent, mode, mark)

    @property
    def last(self) -> datetime | None:
        """When the last request was made."""
        return self.what_if.traces[-1].at if self.what_if is not None and self.what_if.traces else None

    def effect(self, now: Mapping[str, bytes], own: Mapping[str, bytes], files: set[str]) -> Effect:
        """What sections that read ``now`` do to the cache. Compared are those that differ from the agent's ``own``
        and those of ``files``, which may have changed since; others depend on the chat a request was for."""
        if self.what_if is None or not self.what_if.traces:
            return NO_EFFECT
        sent = {part.name: data for part, data in self.what_if.traces[-1].sections()}
        looked = {name for name in {*now, *own} if name in files or now.get(name) != own.get(name)}
        before = {name: data for name, data in sent.items() if name in looked}
        edited = self.what_if.like(
            _assembly({n: data for n, data in now.items() if n in before}), _assembly(before)
        )
        forecast = edited.forecast()
        breaks = edited.next_turn()
        added = [name for name, data in now.items() if data and name in looked and name not in sent]
        return Effect(
            forecast.now.same_share,
            forecast.then.same_share,
            breaks,
            _cached(now, sent, breaks, added),
        )

    def lint(self, agent: AgentHome, assembly: Assembly) -> "Lint":
        """The linter's findings, with what recordings tell."""
        from rightlab.prompt.inspect import lint

        today = datetime.now(zone(agent.config().timezone)).date()
        return lint(assembly, history=self.history, today=today, method=assembly.token_method)


def sections_of_turn(agent: AgentHome, number: int) -> dict[str, bytes]:
    """The sections of the prompt that turn ``number`` sent, in order. Raises UsageError: not recorded."""
    from rightlab.runtime.recorded_turns import recorded_turns, turn_named
    from rightlab.runtime.requests import read_requests

    row = turn_named(recorded_turns(agent), number)
    found = read_requests(agent, limit=None, keys=[row["invocation_id"]])
    if not found:
        raise UsageError(f"the requests of turn {number} are gone")
    return {part.name: data for part, data in found[0].trace.sections()}


def _read(agent: AgentHome, mode: str, mark: object) -> Traffic:
    from rightlab.runtime.recorded_turns import recorded_turns
    from rightlab.runtime.requests import Requests, read_requests, read_stability

    everything = read_requests(agent, limit=REQUESTS)
    source = {"normal": "interactive", "cron": "cron"}.get(mode)
    mine = Requests(agent, [one for one in everything if one.source == source])
    return Traffic(
        mark,
        len(mine),
        mine.what_if() if mine else None,
        read_stability(agent, mode),
        tuple(int(row["id"]) for row in recorded_turns(agent, last=TURNS)),
        mine.scripted,
    )


def _newest(agent: AgentHome) -> object:
    """Changes whenever a request is recorded: the newest folder of recordings, and when it last changed."""
    from rightlab.runtime.stored_requests import recorded_invocations

    places = recorded_invocations(agent.recordings_dir)
    if not places:
        return None
    last = next(reversed(places.values()))
    try:
        return len(places), last.name, last.stat().st_mtime_ns
    except OSError:
        return len(places), last.name


def _assembly(sections: Mapping[str, bytes]) -> Assembly:
    """Sections whose bytes are known, as an assembly."""
    return Assembly(
        AssembledSection(name, "", literal=True, file=name, content=data) for name, data in sections.items()
    )


def _cached(
    now: Mapping[str, bytes], sent: Mapping[str, bytes], breaks: "Divergence", added: list[str]
) -> dict[str, str]:
    names = [name for name, data in now.items() if data]
    at = [names.index(one) for one in (breaks.name, *added) if one in names]
    broken = min(at, default=len(names)) if breaks or added else len(names)
    found = {}
    for place, name in enumerate(names):
        if place > broken:
            found[name] = "behind it"
        elif place == broken:
            found[name] = "breaks here"
            if name == breaks.name:
                price = "" if breaks.cost_usd is None else f", {money(breaks.cost_usd, signed=True)} once"
                found[name] += f": {tokens(breaks.tokens_rewritten, signed=True)} tokens{price}"
        elif name in sent:
            found[name] = "yes" if broken == len(names) else "same"
        else:
            found[name] = ""
    return found
