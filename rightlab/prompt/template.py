"""Strict templates: ``{{name}}`` and nothing else (spec prompt-registry 1.7).

Scanning is linear, never crosses from one text into the next, and never looks at a value again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from rightlab.errors import PromptError, TemplateError

__all__ = ["VARIABLE_NAME", "join_sections", "render_template", "valid_variable_name"]

VARIABLE_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_GROUP = re.compile(r"\{\{([^{}]*)\}\}")
_EXCERPT = 16


def valid_variable_name(name: object) -> bool:
    """Whether ``{{name}}`` could ever refer to ``name``: a small letter, then letters, digits, ``_``."""
    return isinstance(name, str) and VARIABLE_NAME.fullmatch(name) is not None


def render_template(
    text: str,
    variables: Mapping[str, str | None],
    *,
    section: str | None = None,
    owner: str | None = None,
    kind: str = "section",
) -> str:
    """``text`` with every ``{{name}}`` replaced by ``variables[name]``.

    A value of ``None`` means registered, but without a value now. ``section``, ``owner`` and ``kind`` (section
    or context) only say in errors where the text comes from.

    Raises :class:`TemplateError` for the first fault from the left: ``bad_name`` (no name in the braces),
    ``unknown``, ``no_value``, or ``broken_open`` (``{{`` that opens nothing although ``}}`` follows). A
    ``{{`` with no ``}}`` behind it is ordinary text. Source: spec prompt-registry 1.7.
    """
    at = text.find("{{")
    if at < 0:
        return text
    out: list[str] = []
    cursor = 0
    while at >= 0:
        group = _GROUP.match(text, at)
        if group is None:
            if text.find("}}", at + 2) < 0:
                break
            raise _fault(text, at, "broken_open", "opens no complete reference", section, owner, kind)
        name = group[1]
        if not valid_variable_name(name):
            raise _fault(text, at, "bad_name", "is not a variable name in braces", section, owner, kind)
        if name not in variables:
            known = ", ".join(variables) or "none"
            why = f"names a variable that is not registered (registered: {known})"
            raise _fault(text, at, "unknown", why, section, owner, kind)
        value = variables[name]
        if value is None:
            raise _fault(text, at, "no_value", "names a variable that has no value now", section, owner, kind)
        if not isinstance(value, str):
            raise PromptError(
                f"variable {name!r} holds {type(value).__name__}, not text", code="bad_value", section=section
            )
        out.append(text[cursor:at])
        out.append(value)
        cursor = group.end()
        at = text.find("{{", cursor)
    out.append(text[cursor:])
    return "".join(out)


def join_sections(texts: Sequence[str] | Iterable[str]) -> str:
    """The texts joined by one blank line, those of length 0 left out; nothing is trimmed (spec 1.7)."""
    return "\n\n".join(text for text in texts if text)


def _fault(
    text: str, at: int, code: str, why: str, section: str | None, owner: str | None, kind: str
) -> TemplateError:
    excerpt = text[at : at + _EXCERPT]
    place = "" if section is None else f" in {kind} {section!r}"
    source = f" of {owner}" if owner else ""
    return TemplateError(
        f"{excerpt!r}{place}{source} (offset {at}) {why}",
        code=code,
        offset=at,
        excerpt=excerpt,
        section=section,
        owner=owner,
    )
