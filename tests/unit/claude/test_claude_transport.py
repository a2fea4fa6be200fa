"""The transport against children that misbehave (spec agent-runtime 3.3, 14.2; C17)."""

import asyncio
import json
import os
import signal
import stat
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rightlab.claude import ApiRetry, AssistantText, Event, Other, Result
from rightlab.errors import ClaudeError, TurnFailed


async def gone(pid: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            if state == "Z":
                return True
        except OSError:
            return True
        await asyncio.sleep(0.02)
    return False


async def started(child: Any) -> None:
    for _ in range(500):
        if child.launcher.processes:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the child did not start")


async def test_stdin_is_delivered_whole_and_closed(child: Any, make_program: Any) -> None:
    program = make_program("data = sys.stdin.buffer.read()", "end(str(len(data)))")
    events = await child.run(program, stdin="é" * 2_000_000)
    assert events[-1].text == "4000000"


async def test_a_child_that_does_not_read_its_stdin(child: Any, make_program: Any) -> None:
    events = await child.run(make_program("sys.stdin.close()", "end()"), stdin="x" * 3_000_000)
    assert events[-1].text == "done"


async def test_lines_of_any_length(child: Any, make_program: Any) -> None:
    program = make_program(
        "say(type='assistant', message={'content': [{'type': 'text', 'text': 'é' * 5_000_000}]})",
        "sys.stdout.write('\\n\\n')",
        "end()",
    )
    events = await child.run(program)
    assert isinstance(events[0], AssistantText)
    assert len(events[0].text) == 5_000_000
    assert isinstance(events[-1], Result)
    assert len(events) == 2


async def test_a_last_line_without_newline_counts(child: Any, make_program: Any) -> None:
    program = make_program("sys.stdout.write(json.dumps({'type': 'result', 'result': 'x'}))")
    assert (await child.run(program))[-1].text == "x"


async def test_c17_one_result_ends_the_run_though_the_pipe_stays_open(child: Any, make_program: Any) -> None:
    program = make_program(
        "kid = subprocess.Popen(['sleep', '60'])",
        "say(type='system', subtype='kid', pid=kid.pid)",
        "end()",
        "end('second')",
        "time.sleep(60)",
    )
    started = time.monotonic()
    events = await child.run(program)
    assert time.monotonic() - started < 10
    assert [event.text for event in events if isinstance(event, Result)] == ["done"]
    assert await gone(events[0].raw["pid"])
    assert child.launcher.processes[0].returncode == -signal.SIGKILL


async def test_c17_a_grandchild_that_holds_the_pipe_does_not_hold_us(child: Any, make_program: Any) -> None:
    program = make_program(
        "kid = subprocess.Popen(['sleep', '60'])", "say(type='system', subtype='kid', pid=kid.pid)", "end()"
    )
    started = time.monotonic()
    events = await child.run(program)
    assert time.monotonic() - started < 5
    assert await gone(events[0].raw["pid"])


async def test_a_child_may_end_by_itself_after_its_result(child: Any, make_program: Any) -> None:
    """Its transcript is whole then; it is killed only when it stays."""
    mark = child.folder / "mark"
    program = make_program("end()", "time.sleep(0.2)", f"open({str(mark)!r}, 'w').close()")
    await child.run(program)
    assert mark.exists()
    assert child.launcher.processes[0].returncode == 0


async def test_output_after_the_result_does_not_block_the_child(child: Any, make_program: Any) -> None:
    mark = child.folder / "mark"
    program = make_program(
        "end()",
        "sys.stdout.write('x' * 3_000_000)",
        "sys.stdout.flush()",
        f"open({str(mark)!r}, 'w').close()",
    )
    await child.run(program)
    assert mark.exists()


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("sys.stderr.write('boom\\n'); sys.exit(3)", "cli", "exit code 3 before a result: boom"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "cli", "killed by signal 15"),
        ("sys.exit('Error: Session ID abc is already in use.')", "session_in_use", "is taken"),
        ("sys.exit('No conversation found with session ID: abc')", "session", "does not know"),
        ("sys.exit('Not logged in · Please run /login')", "auth", "refused the credential"),
        ("pass", "cli", "exit code 0 before a result"),
    ],
)
async def test_an_end_without_a_result(
    child: Any, make_program: Any, body: str, kind: str, words: str
) -> None:
    with pytest.raises(TurnFailed, match=words) as caught:
        await child.run(make_program(body))
    assert caught.value.kind == kind
    assert "\n" not in str(caught.value)


async def test_a_flood_on_stderr_neither_blocks_nor_grows(child: Any, make_program: Any) -> None:
    program = make_program("sys.stderr.write('y' * 5_000_000 + ' last words')", "sys.exit(1)")
    with pytest.raises(TurnFailed) as caught:
        await child.run(program)
    assert len(str(caught.value)) < 500


async def test_stderr_is_shown_without_secrets(child: Any, make_program: Any) -> None:
    with pytest.raises(TurnFailed) as caught:
        await child.run(make_program("sys.exit('bad key sk-ant-api03-secretsecret')"))
    assert "secretsecret" not in str(caught.value)


async def test_the_whole_turn_has_a_limit(child: Any, make_program: Any) -> None:
    program = make_program("while True:", "    say(type='system', subtype='status')", "    time.sleep(0.05)")
    started = time.monotonic()
    with pytest.raises(TurnFailed, match=r"longer than 0\.5 s") as caught:
        await child.run(program, timeout_s=0.5)
    assert caught.value.kind == "timeout"
    assert time.monotonic() - started < 6
    assert child.launcher.processes[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "quiet",
    [
        "say(type='system', subtype='init', session_id='session')",
        "say(type='system', subtype='api_retry', error_status=401)",
        "sys.stdout.write('chatter\\n')",
    ],
)
async def test_init_and_refusals_are_no_progress(child: Any, make_program: Any, quiet: str) -> None:
    """Spec 14.2 8: an expired token leaves the CLI hanging at its start."""
    with pytest.raises(TurnFailed) as caught:
        await child.run(make_program(quiet, "time.sleep(30)"), first_progress_s=0.4)
    assert caught.value.kind == "no_progress"


@pytest.mark.parametrize(
    "word",
    [
        "say(type='system', subtype='thinking_tokens')",
        "say(type='system', subtype='api_retry', error_status=529)",
        "say(type='assistant', message={'content': [{'type': 'text', 'text': 'x'}]})",
        "say(type='stream_event')",
    ],
)
async def test_the_first_word_ends_the_watchdog(child: Any, make_program: Any, word: str) -> None:
    program = make_program(word, "time.sleep(1.0)", "end()")
    assert (await child.run(program, first_progress_s=0.6))[-1].ok


async def test_the_watchdog_waits_for_stdin(child: Any, make_program: Any) -> None:
    program = make_program("time.sleep(0.8)", "sys.stdin.read()", "end()")
    assert (await child.run(program, stdin="x" * 3_000_000, first_progress_s=0.5))[-1].ok


async def test_leaving_early_ends_the_group(child: Any, make_program: Any) -> None:
    program = make_program(
        "kid = subprocess.Popen(['sleep', '60'])",
        "say(type='system', subtype='kid', pid=kid.pid)",
        "time.sleep(60)",
    )
    stream: AsyncIterator[Event] = child.stream(program)
    first = await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    assert await gone(first.raw["pid"])
    assert child.launcher.processes[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize("ends", [True, False])
async def test_children_in_a_session_of_their_own_die_too(child: Any, make_program: Any, ends: bool) -> None:
    """As the CLI's Bash tool starts its commands: killing the group does not reach them."""
    inner = (
        "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    )
    program = make_program(
        f"kid = subprocess.Popen([sys.executable, '-c', {inner!r}], start_new_session=True, "
        "stdout=subprocess.PIPE)",
        "say(type='system', subtype='kids', pids=[kid.pid, int(kid.stdout.readline())])",
        # The CLI is there for a moment after its result, and its children are looked up in that moment.
        "end(); sys.stdout.flush(); time.sleep(0.5)" if ends else "time.sleep(60)",
    )
    stream = child.stream(program)
    first = await anext(stream)
    if ends:
        assert [event.text async for event in stream] == ["done"]
    else:
        await stream.aclose()
    for pid in first.raw["pids"]:
        assert await gone(pid)


async def test_cancelling_ends_the_group_and_stays_cancelled(child: Any, make_program: Any) -> None:
    running = asyncio.create_task(child.run(make_program("time.sleep(60)")))
    await started(child)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert child.launcher.processes[0].returncode == -signal.SIGKILL


async def test_nothing_is_left_open(child: Any, make_program: Any) -> None:
    await child.run(make_program("end()"))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await child.run(make_program("subprocess.Popen(['sleep', '60'])", "end()"))
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_twenty_runs_at_once(child: Any, make_program: Any) -> None:
    program = make_program("text = sys.stdin.read()", "end(text)")
    runs = [child.run(program, stdin=str(number), session_id=f"s{number}") for number in range(20)]
    results = await asyncio.gather(*runs)
    assert [events[-1].text for events in results] == [str(number) for number in range(20)]


async def test_a_plain_text_run(child: Any, make_program: Any) -> None:
    events = await child.run(make_program("print('two')", "print('lines')"), output_format="text")
    assert [event.text for event in events] == ["two\nlines"]
    with pytest.raises(TurnFailed, match="sorry"):
        await child.run(make_program("print('sorry')", "sys.exit(1)"), output_format="text")


async def test_the_launcher_is_told_what_this_call_alone_may_see(
    child: Any, make_program: Any, tmp_path: Path
) -> None:
    await child.run(make_program("end('done')"), files=tmp_path)
    await child.run(make_program("end('done')"))
    assert child.launcher.files == [tmp_path, None]


async def test_a_launcher_that_cannot_start_anything(child: Any) -> None:
    class Broken:
        async def spawn(
            self,
            argv: Sequence[str],
            *,
            env: Mapping[str, str],
            cwd: str | None = None,
            files: Path | None = None,
        ) -> asyncio.subprocess.Process:
            raise FileNotFoundError(2, "No such file or directory")

    child.transport.launcher = Broken()
    with pytest.raises(ClaudeError, match="No such file"):
        await child.run("")


async def test_the_log_holds_every_line_redacted_and_private(child: Any, make_program: Any) -> None:
    child.transport.redact = lambda text: text.replace("hunter2", "***")
    program = make_program(
        "say(type='system', subtype='init', session_id='session')",
        "sys.stdout.write('no json hunter2\\n')",
        "end('it was hunter2')",
    )
    events = await child.run(program)
    assert events[1] == Other(kind="unparsed", text="no json hunter2")
    path = child.folder / "log" / "session.ndjson"
    lines = path.read_text().splitlines()
    assert len(lines) == 3
    assert "hunter2" not in path.read_text()
    assert json.loads(lines[2])["result"] == "it was ***"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_log_is_named_by_the_session_the_cli_made(child: Any, make_program: Any) -> None:
    program = make_program(
        "print('early')", "say(type='system', subtype='init', session_id='../made')", "end()"
    )
    await child.run(program, session_id=None)
    (path,) = (child.folder / "log").iterdir()
    assert path.name == "___made.ndjson"
    assert path.read_text().splitlines()[0] == "early"


async def test_the_log_rotates(child: Any, make_program: Any) -> None:
    child.transport.log_bytes = 3000
    for number in range(4):
        await child.run(make_program(f"end('x' * 2000, turn={number})"))
    names = sorted(path.name for path in (child.folder / "log").iterdir())
    assert names == ["session.ndjson", "session.ndjson.1"]
    kept = [json.loads((child.folder / "log" / name).read_text())["turn"] for name in reversed(names)]
    assert kept == [2, 3]


async def test_retries_are_seen_while_they_happen(child: Any, make_program: Any) -> None:
    program = make_program(
        "say(type='system', subtype='api_retry', attempt=1, max_retries=2, retry_delay_ms=502, error_status=529)",
        "end()",
    )
    events = await child.run(program)
    assert events[0] == ApiRetry(attempt=1, max_retries=2, delay_ms=502, status=529)
