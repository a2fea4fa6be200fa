"""Files people edit: read with line numbers, changed with comments and order kept (ruamel.yaml)."""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightlab.errors import ConfigError

__all__ = ["edit", "parse"]

_QUOTED = re.compile(r"""(['"])(?!<)(?:(?!\1).){2,}\1""")
KeyPath = tuple[str | int, ...]
LIMIT_BYTES = 1_000_000
_LIMIT_VALUES = 100_000
"""How many values a file may come to with its aliases written out: a few lines of them can mean billions."""
_TEXT_KEYS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


def parse(text: bytes | str, path: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The plain values of a YAML mapping, and for each key path the line (from 1) its key stands in.

    Raises:
        ConfigError: no YAML, too large, a key twice or one that is no text, or no mapping at the top.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(text) > LIMIT_BYTES:
        raise ConfigError(
            f"takes {len(text):,} bytes, the most is {LIMIT_BYTES:,}", where=path, fix="Is it the right file?"
        )
    try:
        source = text.decode("utf-8") if isinstance(text, bytes) else text
        lines: dict[KeyPath, int] = {}
        _Lines(path, lines).walk(YAML(typ="safe", pure=True).compose(io.StringIO(source)), ())
        values = YAML(typ="safe", pure=True).load(io.StringIO(source))
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8 text", where=path) from None
    except MarkedYAMLError as error:
        raise _broken(error, path) from None
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise ConfigError(
            "not readable as YAML", where=path, fix="Check its indentation and quotes."
        ) from None
    if values is None:
        return {}, lines
    if not isinstance(values, dict):
        raise ConfigError("keys with values are expected (`key: value`)", where=f"{path}, line 1")
    return values, lines


def _broken(error: Any, path: Path) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = path if mark is None else f"{path}, line {mark.line + 1}"
    # ruamel quotes what it stumbled over (a tag, an alias, the value of a doubled key): it could be a secret.
    problem = _QUOTED.sub("something", str(error.problem or "not readable as YAML").splitlines()[0])
    if problem.startswith("found duplicate key"):
        return ConfigError("a key stands here twice", where=where, fix="Keep one of the two.")
    return ConfigError(
        f"not readable as YAML: {problem}", where=where, fix="Check its indentation and quotes."
    )


class _Lines:
    """Notes the line of each key; refuses keys that are no text, and aliases that multiply."""

    def __init__(self, file: Path, lines: dict[KeyPath, int]) -> None:
        self._file, self._lines, self._left = file, lines, _LIMIT_VALUES

    def walk(self, node: Any, path: KeyPath) -> None:
        from ruamel.yaml.nodes import MappingNode, SequenceNode

        if isinstance(node, MappingNode):
            for key, value in node.value:
                line = key.start_mark.line + 1
                if key.tag not in _TEXT_KEYS or not isinstance(key.value, str):
                    raise ConfigError(
                        "a key is no text",
                        where=f"{self._file}, line {line}",
                        fix='Put a number, a date, true, false or null in quotes ("1": value).',
                    )
                self._visit(value, (*path, key.value), line)
        elif isinstance(node, SequenceNode):
            for index, value in enumerate(node.value):
                self._visit(value, (*path, index), value.start_mark.line + 1)

    def _visit(self, value: Any, here: KeyPath, line: int) -> None:
        self._left -= 1
        if self._left < 0:
            raise ConfigError(
                f"comes to more than {_LIMIT_VALUES:,} values",
                where=f"{self._file}, line {line}",
                fix="Repeat less with aliases (*name).",
            )
        self._lines[here] = line
        self.walk(value, here)


def edit(text: bytes | str, changes: Mapping[str, Any], path: Path) -> str:
    """``text`` with dotted keys set (``{"sandbox.mode": "none"}``); comments, order and quotes stay.

    Raises:
        ConfigError: as :func:`parse`, or a dotted key leads through a value that is no block.
    """
    from ruamel.yaml.comments import CommentedMap

    data = load_round_trip(text, path)
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        block: Any = data
        for depth, key in enumerate(parents):
            inner = block.get(key)
            if inner is None:
                inner = block[key] = CommentedMap()
            if not isinstance(inner, dict):
                raise ConfigError(
                    f"{'.'.join(parents[: depth + 1])} is a value, not a block of keys", where=path
                )
            block = inner
        block[last] = value
    return dump_round_trip(data)


def load_round_trip(text: bytes | str, path: Path) -> Any:
    """The editable form of a YAML mapping (empty for an empty file); errors as :func:`parse`."""
    from ruamel.yaml.comments import CommentedMap

    parse(text, path)
    source = text.decode("utf-8") if isinstance(text, bytes) else text
    data = _round_trip().load(io.StringIO(source))
    if data is None:
        data = CommentedMap()
        if source.strip():
            data.yaml_set_start_comment("\n".join(line.lstrip("# ") for line in source.strip().splitlines()))
    return data


def dump_round_trip(data: Any) -> str:
    """The text of an editable form."""
    stream = io.StringIO()
    _round_trip().dump(data, stream)
    return stream.getvalue()


def _round_trip() -> Any:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    # `key: null` rather than an empty value, which people read as a mistake.
    yaml.representer.add_representer(
        type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml
