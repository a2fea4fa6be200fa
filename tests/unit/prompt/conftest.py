"""Shared pieces of the prompt tests."""

import pytest

from rightlab.prompt import PromptRegistry

BUILT_IN = ("harness:identity", "deployment:persona")


@pytest.fixture
def registry():
    return PromptRegistry()


@pytest.fixture
def names():
    """Names of the contributed sections of an assembly."""
    return lambda assembly: [one.name for one in assembly.sections if one.name not in BUILT_IN]


@pytest.fixture
def tool():
    return lambda name, **extra: {"name": name, "description": f"{name} tool", "parameters": {}, **extra}
