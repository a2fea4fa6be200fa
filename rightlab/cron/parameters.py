"""Parameters into a notebook: papermill's contract (a cell tagged ``parameters``, then an injected one).

Ours for Python, because papermill's own module costs a second of imports; other languages go through
papermill's translators.
"""

import ast
import math
from collections.abc import Mapping
from typing import Any

from rightlab.errors import UsageError

__all__ = ["declared_names", "inject", "python_source"]


def declared_names(nb: Any) -> frozenset[str]:
    """The names that the notebook's parameters cell assigns; empty when there is no such cell."""
    index = _tagged(nb, "parameters")
    if index is None:
        return frozenset()
    try:
        tree = ast.parse("".join(nb["cells"][index]["source"]))
    except SyntaxError:
        return frozenset()
    names: set[str] = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names.update(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset(names)


def inject(nb: Any, parameters: Mapping[str, Any]) -> None:
    """Put ``parameters`` (JSON values) into ``nb`` (a NotebookNode), in place.

    The new cell follows the parameters cell, replaces an older injected one, or comes first. Raises
    :class:`UsageError` for a name that is no identifier.
    """
    from nbformat.v4 import new_code_cell

    nb["metadata"].setdefault("papermill", {})["parameters"] = dict(parameters)
    if not parameters:
        return
    cell = new_code_cell(source=_source(nb, parameters), metadata={"tags": ["injected-parameters"]})
    older, declared = _tagged(nb, "injected-parameters"), _tagged(nb, "parameters")
    if older is not None:
        nb["cells"][older] = cell
    else:
        nb["cells"].insert(0 if declared is None else declared + 1, cell)


def python_source(parameters: Mapping[str, Any]) -> str:
    """The assignments as Python source; every JSON value reads back as itself, NaN and infinities too."""
    lines = ["# Parameters"]
    for name, value in parameters.items():
        if not name.isidentifier():
            raise UsageError(f"{name!r} is no parameter name", fix="Use a Python identifier.")
        lines.append(f"{name} = {_literal(value)}")
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    return repr(value)


def _source(nb: Any, parameters: Mapping[str, Any]) -> str:
    meta = nb["metadata"]
    spec = meta.get("kernelspec") or {}
    language = spec.get("language") or (meta.get("language_info") or {}).get("name") or "python"
    if language.lower() in ("python", "ipython"):
        return python_source(parameters)
    from papermill.translators import translate_parameters

    return str(translate_parameters(spec.get("name"), language, dict(parameters), "Parameters"))


def _tagged(nb: Any, tag: str) -> int | None:
    for index, cell in enumerate(nb["cells"]):
        if cell["cell_type"] == "code" and tag in (cell["metadata"].get("tags") or ()):
            return index
    return None
