"""Every trap of the platform facts A and B that a turn can meet, on the real Claude Code (spec platform)."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rightlab.claude import (
    ApiRetry,
    AssistantText,
    CliTransport,
    Event,
    Init,
    Invocation,
    PermissionDenied,
    Result,
    ToolResult,
    ToolUse,
    claude_env,
    failure_of,
    find_cli,
    parse_cron,
    parse_reply,
    schema_for,
)
from rightlab.errors import ClaudeError, TurnFailed
from rightlab.testing.scripted_model import ScriptedModel

pytestmark = pytest.mark.claude

MODEL = "claude-sonnet-5-5"
USAGE = {"input": 100, "output": 42, "cache_read": 20, "cache_write_5m": 10, "cache_write_1h": 20}
ONE_TURN = (100 * 2 + 42 * 10 + 20 * 0.10 + 10 * 2.50 + 20 * 4) / 1e6
"""What a request with USAGE costs at the prices of sonnet 5.5, in dollars."""
HELLO = {"reply": "hello", "usage": USAGE}
BASH = {"tools": [{"name": "Bash", "input": {"command": "echo ran"}}], "usage": USAGE}


class LocalLauncher:
    """Starts the child on this machine, in a session of its own."""

    def __init__(self) -> None:
        self.processes: list[asyncio.subprocess.Process] = []

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        files: Path | None = None,
    ) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(env), cwd=cwd, start_new_session=True
        )
        self.processes.append(process)
        return process


class Bench:
    """One agent's folder, a scripted model and the transport over both."""

    def __init__(self, folder: Path, rules: Any, **env: Any) -> None:
        self.folder = folder
        self.model = ScriptedModel(rules)
        self.launcher = LocalLauncher()
        self.prompt = folder / "system.md"
        self.prompt.write_text("You are a test.\n")
        self.env = {"root": os.geteuid() == 0, "mcp_timeout_ms": 2000, "max_retries": 0, **env}
        self.transport = CliTransport(
            self.launcher,
            str(find_cli().path),
            self.environment,
            log_dir=folder / "streams",
            cwd=str(folder),
        )

    def environment(self, invocation: Invocation) -> dict[str, str]:
        return claude_env(
            base_url=self.model.url,
            bearer="placeholder",
            config_dir=str(self.folder / "config"),
            home=str(self.folder),
            path="/usr/bin:/bin",
            invocation_id=invocation.invocation_id,
            tmp=str(self.folder),
            **self.env,
        )

    def invocation(self, **fields: Any) -> Invocation:
        given = {
            "caller": "worker",
            "invocation_id": uuid.uuid4().hex,
            "session_id": str(uuid.uuid4()),
            "model": "sonnet",
            "prompt_file": str(self.prompt),
            "schema": schema_for("reply"),
            "tools": (),
            "timeout_s": 60.0,
        }
        return Invocation(**{**given, **fields})

    async def run(self, text: str = "hi", **fields: Any) -> list[Event]:
        return [event async for event in self.transport.run(self.invocation(**fields), stdin=text)]

    async def result(self, text: str = "hi", **fields: Any) -> Result:
        last = (await self.run(text, **fields))[-1]
        assert isinstance(last, Result)
        return last

    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.model.requests]

    def system_text(self, index: int = -1) -> str:
        return "\n".join(block["text"] for block in self.bodies()[index]["system"])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:

        def make(rules: Any = None, **env: Any) -> Bench:
            made = Bench(tmp_path, rules if rules is not None else [HELLO], **env)
            stack.enter_context(made.model)
            return made

        yield make


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, AssistantText)]


async def test_one_turn_end_to_end(bench: Any) -> None:
    made = bench()
    invocation = made.invocation()
    events = [event async for event in made.transport.run(invocation, stdin="hi there")]
    init, result = events[0], events[-1]
    assert isinstance(init, Init)
    assert isinstance(result, Result)
    assert init.model == MODEL
    assert init.session_id == invocation.session_id
    assert result.ok
    assert result.num_turns == 2
    assert result.exit_code == 0
    reply = parse_reply(result)
    assert reply.content is not None
    assert reply.content.plain_text() == "hello"
    assert result.cost_usd == pytest.approx(ONE_TURN)
    assert result.usage["output_tokens"] == 42
    assert result.usage["cache_creation"] == {
        "ephemeral_5m_input_tokens": 10,
        "ephemeral_1h_input_tokens": 20,
    }
    assert result.ttft_ms
    # The request: our prompt byte for byte, our header, the placeholder, nothing of the CLI's own extras.
    (request,) = made.model.requests
    assert request.headers["x-right-invocation"] == invocation.invocation_id
    assert request.headers["authorization"] == "Bearer placeholder"
    assert [block["text"] for block in request.body["system"]][-1] == made.prompt.read_text()
    assert request.body["messages"][0]["content"] == "hi there"
    assert [tool["name"] for tool in request.body["tools"]] == ["StructuredOutput"]


@pytest.mark.parametrize("name", ["reply", "bootstrap", "cron", "background", "prefilter", "curator_plan"])
async def test_the_cli_takes_every_schema_and_passes_it_on_unchanged(bench: Any, name: str) -> None:
    made = bench()
    await made.result(schema=schema_for(name), max_turns=3)
    tools = made.bodies()[0]["tools"]
    assert tools[-1]["input_schema"] == schema_for(name)


async def test_trap_1_costs_are_per_turn_though_the_total_is_cumulative(bench: Any) -> None:
    made = bench()
    session = str(uuid.uuid4())
    results = [await made.result(session_id=session, resume=turn > 0) for turn in range(3)]
    fork = await made.result(fork_from=session, session_id=str(uuid.uuid4()))
    assert [result.session_cost_usd for result in results] == pytest.approx(
        [ONE_TURN, 2 * ONE_TURN, 3 * ONE_TURN]
    )
    assert fork.session_cost_usd == pytest.approx(4 * ONE_TURN)
    assert [result.cost_usd for result in [*results, fork]] == pytest.approx([ONE_TURN] * 4)
    assert all(result.usage["input_tokens"] == 100 for result in [*results, fork])


async def test_trap_1_a_plain_json_result_has_no_cost_of_its_own(bench: Any) -> None:
    made = bench()
    session = str(uuid.uuid4())
    await made.result(session_id=session)
    result = await made.result(session_id=session, resume=True, output_format="json")
    assert result.session_cost_usd == pytest.approx(2 * ONE_TURN)
    assert result.cost_usd is None
    assert result.usage["input_tokens"] == 100


async def test_a_model_the_cli_does_not_know_costs_unknown(bench: Any) -> None:
    result = await bench().result(model="claude-zebra-9")
    assert result.session_cost_usd
    assert result.cost_usd is None


async def test_usage_of_content_blocks_is_not_summed(bench: Any) -> None:
    """pains 6, tddworks/ClaudeBar#207: a message of several blocks repeats its usage."""
    made = bench([{"thinking": "hm", "text": "Let me.", "reply": "hello", "usage": USAGE}])
    result = await made.result()
    assert result.usage["input_tokens"] == 100
    assert result.cost_usd == pytest.approx(ONE_TURN)


async def test_trap_2_a_changed_prompt_file_reaches_the_resumed_session(bench: Any) -> None:
    made = bench()
    session = str(uuid.uuid4())
    made.prompt.write_text("MARKER-1\n")
    await made.result(session_id=session)
    made.prompt.write_text("MARKER-2\n")
    await made.result(session_id=session, resume=True)
    assert "MARKER-1" in made.system_text(0)
    assert "MARKER-2" in made.system_text(-1)
    assert "MARKER-1" not in made.system_text(-1)


async def test_trap_3_text_only_answer_is_success_without_structured_output(bench: Any) -> None:
    made = bench([{"text": "only text", "usage": USAGE}])
    result = await made.result()
    assert result.ok
    assert result.subtype == "success"
    assert result.structured_output is None
    assert len(made.model.requests) == 2
    content = parse_reply(result).content
    assert content is not None
    assert content.plain_text() == "only text"
    with pytest.raises(TurnFailed, match="no structured cron answer"):
        parse_cron(result)


@pytest.mark.parametrize(("status", "kind"), [(400, "api"), (403, "auth"), (404, "api")])
async def test_trap_3_error_under_subtype_success(bench: Any, status: int, kind: str) -> None:
    made = bench([{"error": {"status": status, "message": "boom"}}], max_retries=2)
    started = time.monotonic()
    events = await made.run()
    result = events[-1]
    assert result.subtype == "success"
    assert result.is_error
    assert result.api_error_status == status
    assert result.cost_usd == 0
    failure = failure_of(result)
    assert failure is not None
    assert failure.kind == kind
    assert ("model" if status == 404 else "boom") in str(failure)
    assert time.monotonic() - started < 10
    # Not a retry with its back-off; but a 400 is sent again without beta features, a 404 without streaming.
    assert not any(isinstance(event, ApiRetry) for event in events)
    assert len(made.model.requests) <= 3


@pytest.mark.parametrize("retries", [0, 1])
async def test_trap_4_a_refused_credential_fails_fast(bench: Any, retries: int) -> None:
    made = bench([{"error": {"status": 401, "message": "bad key"}}], max_retries=retries)
    started = time.monotonic()
    events = await made.run()
    assert time.monotonic() - started < 15
    assert len(made.model.requests) == retries + 1
    assert sum(isinstance(event, ApiRetry) for event in events) == retries
    assert all(event.api_error for event in events if isinstance(event, AssistantText))
    failure = failure_of(events[-1])
    assert failure is not None
    assert failure.kind == "auth"


async def test_a_busy_server_is_tried_again(bench: Any) -> None:
    rules = [{"sequence": [{"error": {"status": 529}}, HELLO]}]
    events = await bench(rules, max_retries=2).run()
    retries = [event for event in events if isinstance(event, ApiRetry)]
    assert [(event.attempt, event.status) for event in retries] == [(1, 529)]
    assert events[-1].ok


async def test_a_server_that_stays_busy_is_rate_limited(bench: Any) -> None:
    result = await bench([{"error": {"status": 529, "message": "Overloaded"}}]).result()
    failure = failure_of(result)
    assert failure is not None
    assert failure.kind == "rate_limited"


async def test_trap_5_a_dead_mcp_server_is_seen_in_init(bench: Any) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    made = bench()
    events = await made.run(mcp_config=mcp_config(made.folder, port))
    assert isinstance(events[0], Init)
    assert events[0].mcp_status("right") == "failed"
    assert events[0].mcp_status("other") is None
    assert events[-1].ok


async def test_trap_5_a_hanging_mcp_server_costs_mcp_timeout(bench: Any) -> None:
    with hanging_server() as port:
        made = bench()
        started = time.monotonic()
        events = await made.run(mcp_config=mcp_config(made.folder, port))
    assert time.monotonic() - started < 12
    assert events[0].mcp_status("right") != "connected"
    assert events[-1].ok


async def test_trap_6_variadic_flags_do_not_eat_the_prompt(bench: Any) -> None:
    made = bench()
    result = await made.result(
        "the prompt", tools=("Read",), allowed_tools=("Read", "Bash"), disallowed_tools=("WebFetch", "Bash")
    )
    assert result.ok
    assert "the prompt" in json.dumps(made.bodies()[0]["messages"][0])
    assert [tool["name"] for tool in made.bodies()[0]["tools"]] == ["Read", "StructuredOutput"]


async def test_trap_8_a_budget_overshoots_by_less_than_two_requests(bench: Any) -> None:
    made = bench([BASH])
    result = await made.result(tools=("Bash",), max_budget_usd=0.01)
    failure = failure_of(result)
    assert failure is not None
    assert failure.kind == "budget"
    assert result.terminal_reason == "budget_exhausted"
    assert result.cost_usd is not None
    assert 0.01 <= result.cost_usd < 0.01 + 2 * ONE_TURN
    # The CLI's own `usage` leaves the last request out; ours does not.
    assert result.usage["input_tokens"] == 100 * len(made.model.requests)


async def test_trap_9_two_sessions_have_equal_system_and_tool_bytes(bench: Any) -> None:
    made = bench()
    await made.result("one text")
    await made.result("quite another text")
    first, second = made.bodies()
    assert first["system"] == second["system"]
    assert first["tools"] == second["tools"]


async def test_trap_10_root_is_accepted_with_is_sandbox_only(bench: Any) -> None:
    assert (await bench().result()).ok
    if os.geteuid() == 0:
        with pytest.raises(TurnFailed, match="root"):
            await bench(root=False).result()


async def test_max_turns(bench: Any) -> None:
    result = await bench([BASH]).result(tools=("Bash",), max_turns=2)
    assert result.subtype == "error_max_turns"
    failure = failure_of(result)
    assert failure is not None
    assert failure.kind == "max_turns"


async def test_schema_rejections_end_in_an_error(bench: Any) -> None:
    made = bench([{"structured": {"bad": 1}, "usage": USAGE}])
    events = await made.run()
    rejected = [event for event in events if isinstance(event, ToolResult) and event.schema_rejected]
    assert len(rejected) == 5
    failure = failure_of(events[-1])
    assert failure is not None
    assert failure.kind == "schema"
    assert events[-1].cost_usd == pytest.approx(5 * ONE_TURN)


async def test_tool_calls_and_their_results_are_typed(bench: Any) -> None:
    events = await bench([{"steps": [BASH, HELLO]}]).run(tools=("Bash",))
    used = [event for event in events if isinstance(event, ToolUse)]
    given = [event for event in events if isinstance(event, ToolResult)]
    assert [event.name for event in used] == ["Bash", "StructuredOutput"]
    assert used[0].input == {"command": "echo ran"}
    assert given[0].tool_use_id == used[0].tool_use_id
    assert given[0].text.strip() == "ran"
    assert not given[0].is_error


async def test_denied_tools_are_gone(bench: Any) -> None:
    made = bench([{"steps": [{**BASH, "usage": USAGE}, HELLO]}])
    events = await made.run(tools=("Bash", "Read"), disallowed_tools=("Bash",))
    assert [tool["name"] for tool in made.bodies()[0]["tools"]] == ["Read", "StructuredOutput"]
    assert any(isinstance(event, ToolResult) and event.is_error for event in events)
    assert not any(isinstance(event, PermissionDenied) for event in events)
    assert events[-1].ok


async def test_every_caller_of_the_table_is_accepted(bench: Any) -> None:
    made = bench()
    parent = str(uuid.uuid4())
    await made.result(session_id=parent)
    sessions: dict[str, dict[str, Any]] = {
        "worker": {"session_id": str(uuid.uuid4())},
        "cron": {"session_id": str(uuid.uuid4()), "max_budget_usd": 5.0},
        "background": {"session_id": str(uuid.uuid4()), "fork_from": parent},
        "delivery": {"session_id": parent, "resume": True},
        "repair": {"session_id": parent, "resume": True},
        "prefilter": {},
        "bootstrap_question": {},
        "health_probe": {},
    }
    for caller, session in sessions.items():
        invocation = Invocation.of(
            caller, invocation_id=f"of-{caller}", model="sonnet", prompt_file=str(made.prompt), **session
        )
        events = [event async for event in made.transport.run(invocation, stdin="hi")]
        last = events[-1]
        assert isinstance(last, Result)
        assert last.ok, caller
        assert (last.structured_output is None) == (invocation.schema is None)


async def test_a_killed_turn_can_be_resumed(bench: Any) -> None:
    made = bench([{"match": "slow", "delay": 30, "reply": "late"}, HELLO])
    session = str(uuid.uuid4())
    assert (await made.result(session_id=session)).ok
    running = asyncio.create_task(made.run("slow", session_id=session, resume=True))
    await until(lambda: len(made.model.requests) == 2)
    os.killpg(made.launcher.processes[-1].pid, signal.SIGKILL)
    with pytest.raises(TurnFailed, match="killed by signal 9") as caught:
        await running
    assert caught.value.kind == "cli"
    assert (await made.result("again", session_id=session, resume=True)).ok


async def test_an_unknown_session_is_named(bench: Any) -> None:
    result = await bench().result(session_id=str(uuid.uuid4()), resume=True)
    assert result.subtype == "error_during_execution"
    failure = failure_of(result)
    assert failure is not None
    assert failure.kind == "session"


async def test_a_session_id_in_use_is_named(bench: Any) -> None:
    made = bench()
    session = str(uuid.uuid4())
    await made.result(session_id=session)
    with pytest.raises(TurnFailed, match="already in use") as caught:
        await made.result(session_id=session)
    assert caught.value.kind == "session_in_use"


async def test_silence_before_the_first_word_is_cut(bench: Any) -> None:
    made = bench([{"delay": 60, "reply": "late"}])
    started = time.monotonic()
    with pytest.raises(TurnFailed, match="no word from the model within 2 s") as caught:
        await made.result(first_progress_s=2.0)
    assert caught.value.kind == "no_progress"
    assert time.monotonic() - started < 10
    assert made.launcher.processes[-1].returncode is not None


async def test_the_whole_turn_has_a_limit_and_its_children_die(bench: Any) -> None:
    marker = f"rightlab-test-{os.getpid()}"
    made = bench([{"tools": [{"name": "Bash", "input": {"command": f"tail -f {marker}"}}]}])
    (made.folder / marker).touch()
    running = asyncio.create_task(made.result(tools=("Bash",), timeout_s=6.0))
    await until(lambda: processes_with(marker))
    with pytest.raises(TurnFailed, match="longer than 6 s") as caught:
        await running
    assert caught.value.kind == "timeout"
    await until(lambda: not processes_with(marker))


async def test_leaving_early_and_cancelling_both_end_the_child(bench: Any) -> None:
    made = bench([{"delay": 60, "reply": "late"}])
    stream: AsyncIterator[Event] = made.transport.run(made.invocation(), stdin="hi")
    assert isinstance(await anext(stream), Init)
    await stream.aclose()  # type: ignore[attr-defined]
    running = asyncio.create_task(made.run())
    await until(lambda: len(made.launcher.processes) == 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [process.returncode for process in made.launcher.processes] == [-signal.SIGKILL] * 2


async def test_a_script_may_start_the_cli(bench: Any) -> None:
    made = bench()
    invocation = made.invocation()
    script = made.folder / "turn.sh"
    script.write_text('#!/bin/sh\nexec "$@"\n')
    command = ["/bin/sh", str(script), *invocation.argv(str(find_cli().path))]
    events = [event async for event in made.transport.run(invocation, stdin="hi", command=command)]
    assert events[-1].ok


async def test_the_raw_stream_is_kept_without_secrets(bench: Any) -> None:
    secret = "sk-ant-api03-abcdefghijklmnop"
    made = bench([{"reply": f"the key is {secret}"}])
    session = str(uuid.uuid4())
    result = await made.result(session_id=session)
    assert secret in result.text
    log = (made.folder / "streams" / f"{session}.ndjson").read_text()
    kinds = [json.loads(line)["type"] for line in log.splitlines()]
    assert kinds[0] == "system"
    assert kinds[-1] == "result"
    assert secret not in log


async def test_a_missing_cli_is_a_clear_error(bench: Any) -> None:
    made = bench()
    made.transport.cli_path = str(made.folder / "nothing")
    with pytest.raises(ClaudeError, match="does not start"):
        await made.result()


def test_the_bundled_cli_is_found() -> None:
    cli = find_cli({"PATH": "/usr/bin:/bin"})
    assert cli.source == "bundled"
    assert cli.version[0].isdigit()


def mcp_config(folder: Path, port: int) -> str:
    server = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer x"}}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"right": server}}))
    return str(path)


@contextlib.contextmanager
def hanging_server() -> Iterator[int]:
    """Takes connections and never answers."""
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    held.append(server.accept()[0])

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for connection in held:
            connection.close()


def processes_with(word: str) -> list[str]:
    """Processes that have ``word`` as an argument of their own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
    return found


async def until(condition: Any, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.02)
