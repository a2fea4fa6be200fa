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


class FakeRequest:
    """A recorded request made by hand; its blocks are cut as the gateway cuts them."""

    def __init__(self, system=(), tools=(), messages=(), **facts):
        from rightlab.claude.request_blocks import iter_blocks

        self.json = {"system": list(system), "tools": list(tools), "messages": list(messages)}
        self.blocks = tuple(iter_blocks(self.json))
        self.at = "2026-11-30T10:00:00.000000Z"
        self.model = "claude-sonnet-5-5"
        self.usage = None
        self.scripted = False
        self.session_id = "one"
        self.__dict__.update(facts)


@pytest.fixture
def make_request():
    """``make_request(prompt, say=[...], **facts)``: a request shaped as Claude Code shapes them (platform B)."""
    from rightlab.prompt import join_sections

    def text(value, kept=None):
        block = {"type": "text", "text": value}
        return block if kept is None else block | {"cache_control": {"type": "ephemeral", "ttl": kept}}

    def make(prompt="", say=("hello",), *, tools=("Bash", "Read"), kept="5m", **facts):
        body = prompt if isinstance(prompt, str) else join_sections(list(prompt))
        messages = [{"role": "user", "content": line} for line in say]
        messages[-1] = {"role": "user", "content": [text(say[-1], kept)]}
        listed = [
            one if isinstance(one, dict) else {"name": one, "description": f"{one} tool", "input_schema": {}}
            for one in tools
        ]
        return FakeRequest(
            [text("You are a Claude agent.", kept), text(body, kept)], listed, messages, **facts
        )

    return make


@pytest.fixture
def outline():
    """``outline(name=text, ...)``: the list of a prompt's sections, owners as given in ``owners``."""
    import hashlib

    from rightlab.prompt.inspect import Listed

    def make(owners=None, heads=True, **sections):
        owners = owners or {}
        return tuple(
            Listed(
                name,
                owners.get(name, "rightlab"),
                len(text.encode()),
                hashlib.sha256(text.encode()).hexdigest(),
                text.encode().partition(b"\n")[0] if heads else None,
            )
            for name, text in sections.items()
        )

    return make
