"""A value for a JSON Schema: how a script answers in whatever reply schema the CLI was given."""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

__all__ = ["fill_schema", "schema_problem"]


def schema_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Why ``value`` does not satisfy ``schema``: one line, or None when it does."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _checker(json.dumps(schema, sort_keys=True))(value)
    except JsonSchemaValueException as problem:
        return str(problem)
    return None


@lru_cache(maxsize=256)
def _checker(schema: str) -> Callable[[Any], Any]:
    """The compiled checker of a schema. (The library jsonschema builds grammars for 2 s when it is imported.)"""
    import fastjsonschema

    compiled: Callable[[Any], Any] = fastjsonschema.compile(json.loads(schema))
    return compiled


def fill_schema(schema: Mapping[str, Any], *, text: str, values: Mapping[str, Any] | None = None) -> Any:
    """A small value that satisfies ``schema``: required properties only, ``text`` for every free string.

    ``values`` are used for properties of these names, at any depth, where they fit. The first alternative
    that can be filled is taken, null only where nothing else is allowed.
    """
    return _Filler(schema, text, values or {}).fill(schema)


class _Filler:
    def __init__(self, root: Mapping[str, Any], text: str, values: Mapping[str, Any]) -> None:
        self._root = root
        self._text = text
        self._values = values

    def _fits(self, value: Any, schema: Mapping[str, Any]) -> bool:
        definitions = {key: self._root[key] for key in ("$defs", "definitions") if key in self._root}
        return schema_problem(value, {**definitions, **schema}) is None

    def _resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        seen: set[str] = set()
        while isinstance(schema.get("$ref"), str) and schema["$ref"] not in seen:
            seen.add(schema["$ref"])
            found: Any = self._root
            for part in schema["$ref"].removeprefix("#").strip("/").split("/"):
                found = found.get(part, {}) if isinstance(found, Mapping) else {}
            schema = found
        return schema

    def fill(self, schema: Mapping[str, Any]) -> Any:
        schema = self._resolve(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return next((item for item in schema["enum"] if item is not None), None)
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                return self._alternative(schema, schema[key])
        kinds = schema.get("type")
        kind = next((k for k in kinds if k != "null"), "null") if isinstance(kinds, list) else kinds
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema)
        if kind == "array":
            return [self.fill(schema.get("items", {})) for _ in range(int(schema.get("minItems", 0)))]
        if kind in ("integer", "number"):
            return max(0, schema.get("minimum", 0)) if "maximum" not in schema else schema["maximum"]
        if kind == "boolean":
            return False
        if kind == "null":
            return None
        return self._string(schema)

    def _alternative(self, schema: Mapping[str, Any], options: list[Mapping[str, Any]]) -> Any:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf")}
        for option in options:
            if self._resolve(option).get("type") == "null":
                continue
            value = self.fill({**rest, **self._resolve(option)})
            if self._fits(value, schema):
                return value
        return None

    def _object(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        properties: Mapping[str, Any] = schema.get("properties", {})
        result = {}
        for name in schema.get("required", ()):
            part = properties.get(name, {})
            if name in self._values and self._fits(self._values[name], part):
                result[name] = self._values[name]
            else:
                result[name] = self.fill(part)
        return result

    def _string(self, schema: Mapping[str, Any]) -> str:
        for candidate in (self._text, "rightx-example", "https://example.org", "0", "a"):
            text = candidate[: schema["maxLength"]] if "maxLength" in schema else candidate
            if self._fits(text, schema):
                return text
        return self._text.ljust(int(schema.get("minLength", 0)), ".")
