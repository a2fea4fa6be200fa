"""The scripted model refuses what the API refuses, with its texts."""

import copy

import orjson
import pytest

from rightlab.claude.messages_api import ApiError, check_request, error_type
from rightlab.claude.response_reader import ResponseReader

GOOD = {
    "model": "m",
    "max_tokens": 1,
    "system": "s",
    "tools": [{"name": "A", "input_schema": {}}, {"name": "web", "type": "web_search_20250305"}],
    "messages": [
        {"role": "user", "content": "q"},
        {"role": "system", "content": [{"type": "text", "text": "env"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "A", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
        {"role": "assistant", "content": []},
    ],
    "some_new_beta": True,
}
POINT = {"type": "ephemeral"}


def changed(**fields):
    body = copy.deepcopy(GOOD)
    for key, value in fields.items():
        if value is None:
            del body[key]
        else:
            body[key] = value
    return body


def text(value, **extra):
    return {"type": "text", "text": value, **extra}


def test_a_good_request_passes():
    assert check_request(GOOD) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (None, "not valid JSON"),
        ([], "not valid JSON"),
        (changed(model=None), "model: Field required"),
        (changed(model=""), "model:"),
        (changed(max_tokens=None), "max_tokens: Field required"),
        (changed(max_tokens=0), "greater than or equal to 1"),
        (changed(max_tokens="5"), "valid integer"),
        (changed(max_tokens=True), "valid integer"),
        (changed(stream="yes"), "valid boolean"),
        (changed(messages=None), "messages: Field required"),
        (changed(messages=[]), "at least one message is required"),
        (changed(messages="hi"), "valid list"),
        (changed(messages=[3]), "an object"),
        (changed(messages=[{"role": "assistant", "content": "x"}]), 'must use the "user" role'),
        (changed(messages=[{"role": "robot", "content": "x"}]), "'user' or 'assistant'"),
        (changed(messages=[{"role": "user"}]), "content: Field required"),
        (changed(messages=[{"role": "user", "content": ""}]), "non-empty content"),
        (changed(messages=[{"role": "user", "content": []}]), "non-empty content"),
        (changed(messages=[{"role": "user", "content": [text("")]}]), "must be non-empty"),
        (changed(messages=[{"role": "user", "content": ["x"]}]), "type: Field required"),
        (
            changed(messages=[*GOOD["messages"][:3], {"role": "user", "content": "x"}]),
            "without `tool_result`",
        ),
        (changed(messages=[GOOD["messages"][0], GOOD["messages"][3]]), "unexpected `tool_use_id`"),
        (changed(tools="A"), "valid list"),
        (changed(tools=[{"name": "A"}]), "input_schema: Field required"),
        (changed(tools=[{"input_schema": {}}]), "name: Field required"),
        (changed(tools=[{"name": "A", "input_schema": {}}] * 2), "must be unique"),
        (changed(tools=[{"name": "a" * 129, "input_schema": {}}]), "should match pattern"),
        (changed(tools=[{"name": "a.b", "input_schema": {}}]), "should match pattern"),
        (changed(system=[text(str(n), cache_control=POINT) for n in range(5)]), "Found 5"),
        (
            changed(
                system=[text("a", cache_control=POINT), text("b", cache_control={**POINT, "ttl": "1h"})],
            ),
            "must not come after",
        ),
    ],
)
def test_what_the_api_refuses(body, says):
    problem = check_request(body)
    assert problem is not None
    assert problem.status == 400
    assert says in problem.message
    document = orjson.loads(problem.body())
    assert document["type"] == "error"
    assert document["error"]["type"] == "invalid_request_error"


def test_error_types_and_headers():
    assert [error_type(s) for s in (400, 401, 403, 404, 413, 418, 429, 500, 529, 599)] == [
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
        "request_too_large",
        "invalid_request_error",
        "rate_limit_error",
        "api_error",
        "overloaded_error",
        "api_error",
    ]
    error = ApiError(429, "later", retry_after=1.5, should_retry=True, headers={"X-Reset": "9"})
    assert dict(error.http_headers()) == {
        b"content-type": b"application/json",
        b"retry-after": b"1.5",
        b"x-should-retry": b"true",
        b"x-reset": b"9",
    }


@pytest.mark.parametrize(
    "chunks",
    [
        [b"event: x\ndata: not json\n\n", b"data: [1]\n\n", b'data: {"type":"unknown"}\n\n'],
        [b'data: {"type":"content_block_delta","index":9,"delta":{"text":"x"}}\n\n'],
        [b'data: {"type":"content_block_stop","index":"a"}\n\n', b"garbage"],
        [b'data: {"type":"message_start","message":3}\n\n'],
    ],
)
def test_the_reader_never_fails_on_what_it_does_not_know(chunks):
    reader = ResponseReader()
    reader.start(200, {"content-type": "text/event-stream"})
    for chunk in chunks:
        reader.feed(chunk)
    reader.end()
    assert not reader.complete
    assert reader.message is None


def test_the_reader_takes_crlf_streams_and_leaves_foreign_encodings_alone():
    reader = ResponseReader()
    reader.start(200, {"content-type": "text/event-stream"})
    reader.feed(b'data: {"type":"message_start","message":{"usage":{"input_tokens":4}}}\r\n\r')
    reader.feed(b'\ndata: {"type":"message_stop"}\r\n\r\n')
    assert reader.complete
    assert reader.usage == {"input_tokens": 4}
    other = ResponseReader()
    other.start(200, {"content-type": "application/json", "content-encoding": "br"})
    other.feed(b"\x01\x02")
    other.end()
    assert other.usage is None
    assert other.bytes == 2
