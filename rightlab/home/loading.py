"""Reading and changing ``agent.yaml``: every fault as one line with file, line, key and what was expected."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rightlab.errors import ConfigError
from rightlab.home.config import AgentConfig, block_of
from rightlab.home.writers import write_merged
from rightlab.home.yaml_files import edit, parse

__all__ = ["load_config", "parse_config", "update_config"]

_MOVED = {
    "telegram_token": "Put it into secrets.json under this name (`rightlab init AGENT --telegram-token` does, too).",
    "secret": "Credentials live in secrets.json; remove this key.",
    "allowed_chat_ids": "Allow people and groups with `rightlab agent allow AGENT ID` (allowlist.yaml).",
}
_DEPRECATED_LEARNING = (
    "fork_probe_enabled",
    "fork_probe_model",
    "probe_model",
    "background_review_enabled",
    "episode_selector_model",
    "episode_selector_max_budget_usd",
    "episode_settle_seconds",
    "circuit_failure_threshold",
    "circuit_cooldown_minutes",
)
_EITHER = {
    "claude.warm": "auto, true or false",
    "claude.max_processes": "auto or a whole number of at least 1",
}
_EXPECTED = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "string": "text (in quotes)",
    "model": "a block of keys",
    "dict": "a block of keys",
    "list": "a list",
}


def load_config(path: Path) -> AgentConfig:
    """Read one ``agent.yaml``; keys that are absent have their defaults.

    Raises:
        ConfigError: no file, no YAML, an unknown or moved key, a wrong type or value.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(
            "this file is missing", where=path, fix="Make the agent with `rightlab init`."
        ) from None
    except OSError as error:
        raise ConfigError(f"cannot be read: {(error.strerror or '').lower()}", where=path) from error
    return parse_config(text, path)


def parse_config(text: bytes | str, path: Path) -> AgentConfig:
    """:func:`load_config` for text already read; ``path`` is for messages."""
    values, lines = parse(text, path)

    def at(*keys: str | int) -> str:
        line = next((lines[keys[:size]] for size in range(len(keys), 0, -1) if keys[:size] in lines), None)
        return str(path) if line is None else f"{path}, line {line}"

    for key, fix in _MOVED.items():
        if key in values:
            raise ConfigError(f"{key} is not taken here any more", where=at(key), fix=fix)
    warnings = []
    learning = values.get("learning")
    if isinstance(learning, dict):
        for key in _DEPRECATED_LEARNING:
            if key in learning:
                del learning[key]
                warnings.append(f"{at('learning', key)}: learning.{key} has no effect any more. Remove it.")
    try:
        config = AgentConfig.model_validate(values)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=True)
        problem = min(faults, key=lambda fault: lines.get(_keys(fault["loc"]), 0))
        raise _explain(problem, at, len({_keys(fault["loc"]) for fault in faults}) - 1) from None
    config._warnings = tuple(warnings)
    return config


def update_config(path: Path, changes: Mapping[str, Any]) -> AgentConfig:
    """Set dotted keys (``{"sandbox.mode": "none"}``) in the file, keeping its comments and order.

    Raises:
        ConfigError: the result would not be a valid ``agent.yaml``; the file is left as it was.
    """

    def merge(before: bytes | None) -> str:
        if before is None:
            raise ConfigError("this file is missing", where=path, fix="Make the agent with `rightlab init`.")
        after = edit(before, changes, path)
        parse_config(after, path)
        return after

    return parse_config(write_merged(path, merge), path)


def _keys(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The key path of a pydantic location, without the names it adds for alternatives and dict keys."""
    keys: list[str | int] = []
    block: type[BaseModel] | None = AgentConfig
    for part in location:
        if block is None:
            break
        keys.append(part)
        block = block_of(tuple(keys))
    if keys == ["env"] and len(location) > 1:
        keys.append(location[1])
    return tuple(keys)


def _explain(fault: Any, at: Any, more: int) -> ConfigError:
    keys = _keys(fault["loc"])
    name = ".".join(str(key) for key in keys)
    kind, context = fault["type"], fault.get("ctx", {})
    fix = None
    if kind == "extra_forbidden":
        message = f"unknown key {name}"
        near = _nearest(keys)
        fix = f"Did you mean {near}?" if near else "See `rightlab init` for the keys there are."
    elif name in _EITHER:
        message = f"{name} must be {_EITHER[name]}"
    elif kind == "literal_error":
        message = f"{name} must be {_choices(context['expected'])}"
    elif kind == "value_error":
        message = f"{name or 'the file'}: {context['error']}"
    elif kind in ("greater_than", "greater_than_equal"):
        bound = context.get("gt", context.get("ge"))
        message = f"{name} must be {'more than' if kind == 'greater_than' else 'at least'} {bound:g}"
    elif kind == "string_too_short":
        message = f"{name} is empty"
    else:
        expected = _EXPECTED.get(kind.split("_")[0], fault["msg"].lower())
        message = f"{name} must be {expected}, not {_kind_of(fault['input'])}"
    if more:
        message += f" (and {more} more {'fault' if more == 1 else 'faults'})"
    return ConfigError(message, where=at(*keys), fix=fix)


def _choices(expected: str) -> str:
    """Pydantic's ``'a', 'b' or 'c'`` as people write it in YAML."""
    choices = expected.replace("'", "").replace("True", "true")
    return f"one of {choices}" if " or " in choices else choices


def _kind_of(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    names = {
        str: "text",
        int: "a number",
        float: "a number with a fraction",
        list: "a list",
        dict: "a block of keys",
    }
    return names.get(type(value), type(value).__name__)


def _nearest(keys: tuple[str | int, ...]) -> str | None:
    """The known key closest to an unknown one: among its neighbours first, then anywhere."""
    *parents, last = [str(key) for key in keys]
    block = block_of(tuple(parents))
    if block is not None:
        near = difflib.get_close_matches(last, list(block.model_fields), n=1, cutoff=0.6)
        if near:
            return ".".join([*parents, near[0]])
    everywhere = {dotted.rpartition(".")[2]: dotted for dotted in _all_keys(AgentConfig, "")}
    near = difflib.get_close_matches(last, list(everywhere), n=1, cutoff=0.75)
    return everywhere[near[0]] if near else None


def _all_keys(block: type[BaseModel], prefix: str) -> list[str]:
    found = []
    for name, field in block.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found += _all_keys(inner, f"{prefix}{name}.")
        found.append(f"{prefix}{name}")
    return found
