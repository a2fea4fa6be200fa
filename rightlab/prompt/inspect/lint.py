"""What is worth changing in a prompt: volatile text ahead of stable, rules said twice, bulk, secrets."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from rightlab.html import Column, Footer, Page, Table, count, mimebundle, plural, tokens
from rightlab.prompt.assembly import TOKEN_METHOD, Assembly, Part
from rightlab.prompt.inspect.stability import Stability
from rightlab.prompt.inspect.trace import names_a_file
from rightlab.prompt.inspect.volatile import Hit, find_volatile

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["DEFAULT_BUDGET", "Finding", "Lint", "lint"]

Severity = Literal["error", "warning", "note"]
Code = Literal["secret", "changes", "volatile", "duplicate", "oversized"]

DEFAULT_BUDGET = 4000
"""Tokens a section may have before it is called oversized; what a whole prompt may have is five times that."""

ENOUGH_TURNS = 5
"""From so many recorded turns on, a section that never changed is believed to be stable whatever it says."""

_RANK = {"error": 0, "warning": 1, "note": 2}
_TAIL = "Say it with the message (a tail context or stdin) instead, or take it out."

_SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("an Anthropic key", re.compile(r"\bsk-ant-[A-Za-z0-9_-]{8,}")),
    ("an API key", re.compile(r"\b(?:sk|pk|rk)-(?:proj-|live-|test-)?[A-Za-z0-9_-]{20,}")),
    ("a Telegram bot token", re.compile(r"\b\d{6,12}:[A-Za-z0-9_-]{30,}")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,})")),
    ("a Slack token", re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}")),
    ("an AWS key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a signed token (JWT)", re.compile(r"(?<![\w-])eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{10,}")),
    ("a private key", re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----")),
    ("a password in a URL", re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]+:[^\s/@]{3,}@")),
    ("a bearer token", re.compile(r"\bBearer [A-Za-z0-9._~+/=-]{16,}")),
)


@dataclass(frozen=True)
class Finding:
    """One thing worth changing: where (``line`` from 1 in its section), what, and what to do about it.

    ``tokens_behind`` is what stands behind it in the prompt; ``0`` where that does not matter.
    """

    code: Code
    severity: Severity
    section: str
    owner: str
    line: int | None
    message: str
    fix: str
    tokens_behind: int = 0

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __str__(self) -> str:
        return f"{self.severity}: {self.message}. {self.fix}"


class Lint(Sequence[Finding]):
    """The findings, the gravest first."""

    def __init__(self, findings: Iterable[Finding], sections: int, method: str) -> None:
        self._findings = sorted(findings, key=lambda one: _RANK[one.severity])
        self._sections = sections
        self._method = method

    def __getitem__(self, index: Any) -> Any:
        return self._findings[index]

    def __len__(self) -> int:
        return len(self._findings)

    def to_json(self) -> list[dict[str, Any]]:
        return [one.to_json() for one in self]

    def to_frame(self) -> "DataFrame":
        import pandas as pd

        return pd.DataFrame(self.to_json(), columns=list(Finding.__dataclass_fields__))

    def page(self) -> Page:
        graver = sum(one.severity != "note" for one in self)
        if not self:
            sentence = f"Nothing to improve in {plural(self._sections, 'section')}."
        else:
            n = plural(len(self), "finding")
            sentence = f"{n} in {plural(self._sections, 'section')}, {count(graver)} worth acting on."
        columns = [
            Column("severity"),
            Column("section"),
            Column("line"),
            Column("message", "what"),
            Column("fix", "what to do"),
        ]
        table = Table(
            [one.to_json() for one in self], columns, caption="Findings", row_headers=False, empty="None."
        )
        return Page("Prompt lint", sentence, table, footer=Footer(n=self._sections, method=self._method))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return mimebundle(self, self.page(), include, exclude)

    def _repr_html_(self) -> str:
        return self.page().html()

    def __str__(self) -> str:
        return self.page().text()

    def __repr__(self) -> str:
        return f"<Lint: {plural(len(self), 'finding')} in {plural(self._sections, 'section')}>"


def lint(
    assembly: Assembly,
    *,
    history: Mapping[str, Stability] | None = None,
    budget: int | Mapping[str, int] = DEFAULT_BUDGET,
    today: date | None = None,
    count_tokens: Callable[[int], int] = lambda estimate: estimate,
    method: str = TOKEN_METHOD,
) -> Lint:
    """Look over a prompt before it costs anything.

    ``history`` (see ``section_stability``) tells what really changed: a section that never did in five turns
    is not called volatile, one that changes often is, whatever it says. ``budget``: tokens per section, one
    number or by name. ``today`` makes its own date in a text a sure sign. ``count_tokens`` calibrates estimates.
    """
    parts = assembly.parts()
    sizes = [count_tokens(part.tokens) for part in parts]
    behind = [sum(sizes[at + 1 :]) for at in range(len(parts))]
    known = history or {}
    findings: list[Finding] = []
    for part, size, rest in zip(parts, sizes, behind, strict=True):
        findings += _secrets(part)
        findings += _volatile(part, rest, known.get(part.name), today)
        findings += _oversized(part, size, budget)
    findings += _total(parts, sizes, budget)
    findings += _duplicates(parts)
    return Lint(findings, len(parts), f"tokens: {method}")


# ---- what changes


def _volatile(part: Part, behind: int, seen: Stability | None, today: date | None) -> list[Finding]:
    changed = seen is not None and seen.n >= 3 and seen.share < 0.9
    believed = seen is not None and seen.n >= ENOUGH_TURNS and seen.same == seen.n
    hits = [] if believed else [_judged(hit, part.text, today) for hit in find_volatile(part.text)]
    sure = [hit for hit in hits if hit.sure] or (hits if changed else [])
    found: list[Finding] = []
    if changed and seen is not None:
        often = f"{count(seen.n - seen.same)} of {count(seen.n)} recorded turns"
        what = f"{_who(part)} changed in {often}"
        found.append(
            _changing("changes", "error" if seen.share < 0.5 else "warning", part, None, what, behind)
        )
    for kind in dict.fromkeys(hit.kind for hit in sure):
        hit = next(hit for hit in sure if hit.kind == kind)
        line = part.text.count("\n", 0, hit.start) + 1
        more = sum(other.kind == kind for other in sure) - 1
        what = f"{kind} in {_who(part)} line {line}" + (f" and {plural(more, 'line')} more" if more else "")
        found.append(_changing("volatile", "warning" if behind else "note", part, line, what, behind))
    return found


def _judged(hit: Hit, text: str, today: date | None) -> Hit:
    if today is not None and hit.kind in ("date", "clock") and today.isoformat() in hit.text:
        return Hit(hit.kind, hit.start, hit.text, True)
    return hit


def _changing(
    code: Code, severity: Severity, part: Part, line: int | None, what: str, behind: int
) -> Finding:
    place = (
        f" and sits before {tokens(behind)} tokens that could stay cached"
        if behind
        else "; nothing of the prompt stands behind it, but every message of the conversation does"
    )
    return Finding(code, severity, part.name, part.owner, line, what + place, _TAIL, behind)


# ---- secrets, bulk, repetition


def _secrets(part: Part) -> list[Finding]:
    found = []
    for what, pattern in _SECRETS:
        match = pattern.search(part.text)
        if match is not None:
            line = part.text.count("\n", 0, match.start()) + 1
            message = f"{_who(part)} line {line} holds what looks like {what} ({match[0][:4]}…)"
            fix = "Take it out and give it to the agent as a credential; whoever reads the prompt reads it."
            found.append(Finding("secret", "error", part.name, part.owner, line, message, fix))
            break
    return found


def _oversized(part: Part, size: int, budget: int | Mapping[str, int]) -> list[Finding]:
    limit = budget if isinstance(budget, int) else budget.get(part.name)
    if limit is None or size <= limit:
        return []
    message = (
        f"{_who(part)} takes about {tokens(size)} tokens of every request; its budget is {tokens(limit)}"
    )
    fix = "Shorten it, or move what is seldom needed into a file or skill that is read on demand."
    return [Finding("oversized", "warning", part.name, part.owner, None, message, fix)]


def _total(parts: Sequence[Part], sizes: Sequence[int], budget: int | Mapping[str, int]) -> list[Finding]:
    if not isinstance(budget, int) or sum(sizes) <= 5 * budget or not parts:
        return []
    at = max(range(len(parts)), key=lambda index: sizes[index])
    message = f"the prompt takes about {tokens(sum(sizes))} tokens, most of it {_who(parts[at])} ({tokens(sizes[at])})"
    fix = "Begin with the largest section."
    return [Finding("oversized", "warning", parts[at].name, parts[at].owner, None, message, fix)]


MIN_RULE = 30
_MARKER = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|#+|>)\s+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(*])")
_WORD = re.compile(r"\w+")
_LIKE = 0.85
_COMMON = 20
"""A word in more rules than this is no clue to a near-duplicate."""


@dataclass(frozen=True)
class _Rule:
    part: Part
    line: int
    text: str
    words: frozenset[str]

    @property
    def where(self) -> str:
        return f"{_who(self.part)} line {self.line}"


def _rules(parts: Sequence[Part]) -> list[_Rule]:
    rules = []
    for part in parts:
        fenced = False
        for number, line in enumerate(part.text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                fenced = not fenced
            if fenced or line.lstrip().startswith(("|", "#")):
                continue
            for sentence in _SENTENCE.split(_MARKER.sub("", line)):
                words = [word.casefold() for word in _WORD.findall(sentence)]
                if len(sentence.strip()) >= MIN_RULE and len(words) >= 5:
                    rules.append(_Rule(part, number, " ".join(words), frozenset(words)))
    return rules


def _duplicates(parts: Sequence[Part]) -> list[Finding]:
    """Sentences that say the same twice, word for word or nearly."""
    first: dict[str, _Rule] = {}
    by_word: dict[str, list[_Rule]] = {}
    found = []
    for rule in _rules(parts):
        twin = first.get(rule.text)
        near = twin is None
        if twin is None:
            first[rule.text] = rule
            twin = _near(rule, by_word)
            for word in rule.words:
                holders = by_word.setdefault(word, [])
                if len(holders) <= _COMMON:
                    holders.append(rule)
        if twin is not None:
            how = "says nearly" if near else "says"
            message = f"{rule.where} {how} what {twin.where} says already: “{rule.text[:60]}”"
            fix = "Keep it in one place; two wordings drift apart."
            found.append(
                Finding(
                    "duplicate",
                    "note" if near else "warning",
                    rule.part.name,
                    rule.part.owner,
                    rule.line,
                    message,
                    fix,
                )
            )
    return found


def _near(rule: _Rule, by_word: Mapping[str, list[_Rule]]) -> _Rule | None:
    tally: dict[int, tuple[_Rule, int]] = {}
    for word in rule.words:
        for other in by_word.get(word, ()):
            one, shared = tally.get(id(other), (other, 0))
            tally[id(other)] = (one, shared + 1)
    for other, _ in sorted(tally.values(), key=lambda pair: -pair[1])[:5]:
        common = len(rule.words & other.words)
        if common / len(rule.words | other.words) >= _LIKE:
            return other
    return None


def _who(part: Part) -> str:
    """A file by its name, anything else by its section."""
    return part.owner if names_a_file(part.owner) else part.name
