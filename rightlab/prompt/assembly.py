"""An assembly: the resolved sections, tools, variables and tail contexts of one prompt, before rendering."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rightlab.errors import PromptError
from rightlab.prompt.guard import encode, frame
from rightlab.prompt.template import join_sections, render_template, valid_variable_name
from rightlab.prompt.tools import ToolSchema

if TYPE_CHECKING:
    from pandas import DataFrame

    from rightlab.prompt.diff import AssemblyDiff
    from rightlab.prompt.inspect import Lint

__all__ = [
    "CONTEXT_PREAMBLE",
    "TOKEN_METHOD",
    "AssembledContext",
    "AssembledSection",
    "Assembly",
    "Part",
    "Problem",
    "estimate_tokens",
]

SEPARATOR = b"\n\n"
CONTEXT_PREAMBLE = "Current facts. They replace every earlier list of current facts in this conversation."
TOKEN_METHOD = "estimate by character class, not a tokenizer"
_HIGH = bytes(range(0x80, 0x100))
_NOT_LEAD = {
    2: bytes(b for b in range(256) if not 0xC0 <= b < 0xE0),
    3: bytes(b for b in range(256) if not 0xE0 <= b < 0xF0),
}
_NOT_LEAD[4] = bytes(b for b in range(256) if b < 0xF0)


def estimate_tokens(data: bytes) -> int:
    """About how many tokens ``data`` is: a plain estimate without any download (see :data:`TOKEN_METHOD`).

    One token per 3.8 ASCII bytes, 0.6 per two-byte character, 1.0 per three-byte, 1.8 per four-byte one.
    """
    ascii_bytes = len(data.translate(None, _HIGH))
    tokens = ascii_bytes / 3.8
    if ascii_bytes < len(data):
        for width, weight in ((2, 0.6), (3, 1.0), (4, 1.8)):
            tokens += weight * len(data.translate(None, _NOT_LEAD[width]))
    return math.ceil(tokens)


@dataclass(frozen=True)
class Problem:
    """Something wrong with an assembly that did not stop it (or, from ``check()``, that would)."""

    code: str
    message: str
    section: str | None = None
    owner: str | None = None
    severity: str = "error"

    def to_json(self) -> dict[str, Any]:
        """``{code, severity, section, owner, message}``."""
        return {
            "code": self.code,
            "severity": self.severity,
            "section": self.section,
            "owner": self.owner,
            "message": self.message,
        }

    @classmethod
    def of(cls, error: PromptError, *, severity: str = "error") -> "Problem":
        return cls(error.code, str(error), error.section, error.owner, severity)


@dataclass
class AssembledSection:
    """One section as resolved for this assembly; ``text`` is not yet interpolated (with a file: its heading).

    ``bytes``, ``tokens``, ``sha256`` and ``rendered`` are of the rendered form, heading and frame included.
    ``stability`` is the share of recorded turns in which it was byte-identical, when somebody measured it.
    """

    name: str
    text: str
    order: float = 0.0
    owner: str = ""
    literal: bool = False
    required: bool = True
    complete: bool = False
    file: str | None = None
    head: int | None = None
    wrap: str | None = None
    content: bytes | None = field(default=None, repr=False)
    stability: float | None = None
    variables: Mapping[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    def heading(self) -> str:
        """``text``, interpolated unless it is literal."""
        if self.literal:
            return self.text
        return render_template(self.text, self.variables, section=self.name, owner=self.owner)

    def render_bytes(self) -> bytes:
        """What the model gets of this section; ``b""`` for an empty text or a missing file."""
        if self.file is None:
            return encode(self.heading())
        if self.content is None:
            return b""
        body = self.content if self.wrap is None else frame(self.wrap, self.content)
        above = self.heading()
        return encode(above) + b"\n" + body if above else body

    @property
    def rendered(self) -> str:
        return self.render_bytes().decode("utf-8", "replace")

    @property
    def bytes(self) -> int:
        return len(self.render_bytes())

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.render_bytes())

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.render_bytes()).hexdigest()


@dataclass
class AssembledContext:
    """One tail context as resolved for this assembly."""

    name: str
    text: str
    order: float = 0.0
    owner: str = ""
    literal: bool = False
    required: bool = True


@dataclass(frozen=True)
class Part:
    """One rendered, non-empty section with its figures (sizes in bytes, tokens estimated)."""

    name: str
    order: float
    owner: str
    data: bytes = field(repr=False)
    stability: float | None = None
    token_factor: float = 1.0

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @property
    def tokens(self) -> int:
        """Estimated, times the assembly's ``token_factor``."""
        return round(estimate_tokens(self.data) * self.token_factor)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """``{name, order, owner, bytes, tokens, sha256, stability}`` (contract, ``prompt --json``)."""
        return {
            "name": self.name,
            "order": self.order,
            "owner": self.owner,
            "bytes": len(self.data),
            "tokens": self.tokens,
            "sha256": self.sha256,
            "stability": self.stability,
        }


class Assembly:
    """What one prompt is made of. A snapshot: changing it changes no later assembly.

    ``sections`` in prompt order, ``tools`` in the model's order, ``variables`` (``None``: no value now),
    ``contexts`` for the tail, ``problems`` recorded on the way, ``mode`` of the context or ``None``.
    """

    def __init__(
        self,
        sections: Iterable[AssembledSection | Mapping[str, Any]] = (),
        tools: Iterable[Mapping[str, Any]] = (),
        variables: Mapping[str, str | None] | None = None,
        contexts: Iterable[AssembledContext | Mapping[str, Any]] = (),
        problems: Iterable[Problem] = (),
        *,
        mode: str | None = None,
    ) -> None:
        self.sections: list[AssembledSection] = list(sections)  # type: ignore[arg-type]  # settled below
        self.tools: list[ToolSchema] = list(tools)  # type: ignore[arg-type]
        self.variables: dict[str, str | None] = dict(variables or {})
        self.contexts: list[AssembledContext] = list(contexts)  # type: ignore[arg-type]
        self.problems: list[Problem] = list(problems)
        self.mode = mode
        self.absent: list[AssembledSection] = []
        """File sections whose file was missing; the guest script looks for the file again."""
        self.ranks: dict[str, int] = {}
        """Place of every registered section in the full order, those of missing files included."""
        self.token_factor = 1.0
        self.token_method = TOKEN_METHOD
        """Token estimates are multiplied by the factor when somebody calibrated them, and say so."""
        self.settle()

    # ---- rendering

    def parts(self) -> list[Part]:
        """The rendered sections that are not empty, in order. Raises what a broken template raises."""
        rendered = ((one, one.render_bytes()) for one in self._settled())
        factor = self.token_factor
        return [
            Part(one.name, one.order, one.owner, data, one.stability, factor)
            for one, data in rendered
            if data
        ]

    def render_bytes(self) -> bytes:
        """The exact bytes of the system prompt: the rendered sections, one blank line between two."""
        return SEPARATOR.join(data for one in self._settled() if (data := one.render_bytes()))

    def render(self) -> str:
        """The system prompt as text; invalid UTF-8 of a file shows as U+FFFD (hash and size: of the bytes)."""
        return self.render_bytes().decode("utf-8", "replace")

    def render_contexts(self) -> str:
        """The tail contexts as one text: a line saying that it replaces earlier ones, then the bodies."""
        bodies = [
            one.text
            if one.literal
            else render_template(one.text, self.variables, section=one.name, owner=one.owner, kind="context")
            for one in self.contexts
        ]
        body = join_sections(bodies)
        return f"{CONTEXT_PREAMBLE}\n\n{body}" if body else ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.render_bytes()).hexdigest()

    @property
    def bytes(self) -> int:
        return len(self.render_bytes())

    @property
    def tokens(self) -> int:
        """Sum of the sections' estimates (see :func:`estimate_tokens`)."""
        return sum(part.tokens for part in self.parts())

    def __getitem__(self, name: str) -> AssembledSection:
        for section in self.sections:
            if section.name == name:
                return section
        raise KeyError(name)

    # ---- forms

    def to_json(self) -> dict[str, Any]:
        """The document of ``rightlab prompt --json``."""
        parts = self.parts()
        data = SEPARATOR.join(part.data for part in parts)
        return {
            "mode": self.mode,
            "bytes": len(data),
            "tokens": sum(part.tokens for part in parts),
            "token_method": self.token_method,
            "sha256": hashlib.sha256(data).hexdigest(),
            "sections": [part.to_json() for part in parts],
            "problems": [problem.to_json() for problem in self.problems],
            "text": data.decode("utf-8", "replace"),
        }

    def to_frame(self) -> "DataFrame":
        """One row per rendered section: name, order, owner, bytes, tokens, sha256, stability."""
        import pandas as pd

        columns = ["name", "order", "owner", "bytes", "tokens", "sha256", "stability"]
        return pd.DataFrame([part.to_json() for part in self.parts()], columns=columns)

    def diff(self, other: "Assembly") -> "AssemblyDiff":
        """What turns this assembly into ``other``, by section and within sections."""
        from rightlab.prompt.diff import AssemblyDiff

        return AssemblyDiff.between(self, other)

    def lint(self, **options: Any) -> "Lint":
        """What is worth changing (options: see :func:`rightlab.prompt.inspect.lint`)."""
        from rightlab.prompt.inspect import lint

        return lint(self, **options)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from rightlab.html import mimebundle
        from rightlab.prompt.show import assembly_page

        return mimebundle(self, assembly_page(self), include, exclude)

    def _repr_html_(self) -> str:
        from rightlab.prompt.show import assembly_page

        return assembly_page(self).html()

    def __repr__(self) -> str:
        mode = f" mode={self.mode}" if self.mode else ""
        names = ", ".join(section.name for section in self.sections)
        return f"<Assembly{mode} of {len(self.sections)} sections: {names}>"

    # ---- for the registry

    def settle(self) -> None:
        """Turn what a listener pushed (mappings too) into our own types, bound to our variables."""
        self.sections = [self._bound(one) for one in self.sections]
        self.contexts = [
            one if isinstance(one, AssembledContext) else AssembledContext(**dict(one))
            for one in self.contexts
        ]
        self.tools = [one if isinstance(one, ToolSchema) else ToolSchema(one) for one in self.tools]

    def planned(self) -> list[AssembledSection]:
        """Sections for the guest script: the final ones, with those of missing files where they belong."""
        plan = self._settled()
        for late in self.absent:
            rank = self.ranks.get(late.name, 0)
            later = (i for i, one in enumerate(plan) if self.ranks.get(one.name, -1) > rank)
            plan.insert(next(later, len(plan)), late)
        return plan

    def faults(self) -> Iterator[PromptError]:
        """Everything that is not as an assembly must be; each error names the culprit."""
        yield from _named_faults(self.sections, "section")
        yield from _named_faults(self.contexts, "context")
        for tool in self.tools:
            if not isinstance(tool.get("name"), str) or not tool["name"]:
                yield PromptError(f"a tool without a name: {dict(tool)!r}", code="bad_tools")
        values: Mapping[str, Any] = self.variables
        for name, value in values.items():
            if not valid_variable_name(name):
                yield PromptError(f"{name!r} cannot be the name of a variable", code="bad_name")
            elif value is not None and not isinstance(value, str):
                yield PromptError(
                    f"variable {name!r} holds {type(value).__name__}, not text", code="bad_value"
                )

    def _settled(self) -> list[AssembledSection]:
        return [self._bound(one) for one in self.sections]

    def _bound(self, one: Any) -> AssembledSection:
        if isinstance(one, Mapping):
            one = AssembledSection(**dict(one))
        if isinstance(one, AssembledSection) and one.variables is not self.variables:
            one.variables = self.variables
        return one  # type: ignore[no-any-return]  # anything else is reported by faults()


def detached(section: AssembledSection) -> AssembledSection:
    """A copy of ``section`` that nobody else holds."""
    return replace(section)


def _named_faults(items: Iterable[Any], kind: str) -> Iterator[PromptError]:
    seen: set[str] = set()
    for one in items:
        name = getattr(one, "name", None)
        if not isinstance(name, str) or not name:
            yield PromptError(f"a {kind} without a name: {one!r}", code="bad_name")
            continue
        if name in seen:
            yield PromptError(f"{kind} {name!r} stands twice in the assembly", code="duplicate", section=name)
        seen.add(name)
        if not isinstance(getattr(one, "text", None), str):
            yield PromptError(f"the text of {kind} {name!r} is not text", code="bad_text", section=name)
