"""The bwrap sandbox as a place to work: services, environment, life and death of its processes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rightlab.errors import ConfigError, NotAvailable, SandboxError
from rightlab.home.sockets import bind_unix
from rightlab.sandbox import Sandbox, open_sandbox

pytestmark = pytest.mark.sandbox


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[dict[str, Path]]:
    """Two HTTP services on unix sockets that answer with their own names."""
    servers, paths = [], {}
    for name in ("gateway", "mcp"):

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str = name) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError):
                await reader.readuntil(b"\r\n\r\n")
                body = f"this is {name}".encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )
                await writer.drain()
            writer.close()

        paths[name] = tmp_path / f"{name}.sock"
        servers.append(await asyncio.start_unix_server(serve, sock=bind_unix(paths[name])))
    yield paths
    for server in servers:
        server.close()


GET = r"""
get() {
  url=${1#http://}; exec 3<>/dev/tcp/${url%:*}/${url#*:}
  printf 'GET / HTTP/1.1\r\n\r\n' >&3; cat <&3; exec 3>&-
}
"""


async def gone(pid: int, timeout: float = 5.0) -> bool:
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        await asyncio.sleep(0.01)
    return False


def host_pids(marker: str) -> list[int]:
    """Host ids of the processes whose command line carries ``marker``, this one aside."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
    return found


async def test_services_are_at_fixed_loopback_addresses(
    opening: Any, run: Any, services: dict[str, Path]
) -> None:
    box = await opening(services=services)
    assert (box.url("gateway"), box.url("mcp")) == ("http://127.0.0.1:61101", "http://127.0.0.1:61102")
    ran = await run(box, GET + f"get {box.url('gateway')}; echo; get {box.url('mcp')}")
    assert "this is gateway" in ran.out
    assert "this is mcp" in ran.out
    with pytest.raises(SandboxError, match="nonsuch"):
        box.url("nonsuch")


async def test_a_service_that_starts_again_is_reached_again(opening: Any, run: Any, tmp_path: Path) -> None:
    path = tmp_path / "gateway.sock"
    bind_unix(path).close()
    box = await opening(services={"gateway": path})

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"back\n")
        writer.close()

    server = await asyncio.start_unix_server(serve, sock=bind_unix(path))
    assert (await run(box, GET + f"get {box.url('gateway')}")).out == "back\n"
    server.close()


async def test_the_guests_environment(box: Sandbox, run: Any) -> None:
    """Spec agent-runtime 1.5: own programs on PATH, npm's places, the env file that shells source."""
    ran = await run(
        box,
        """
        pwd; echo $HOME $LANG $TMPDIR $NPM_CONFIG_PREFIX $NPM_CONFIG_CACHE $CLAUDE_CONFIG_DIR
        echo $HTTPS_PROXY $NO_PROXY
        printf '#!/bin/sh\\necho mine' >.local/bin/mytool; chmod +x .local/bin/mytool; mytool
        cat .bashrc; PATH=/bin; . .right/env.sh; echo $PATH; : >$TMPDIR/x
        """,
    )
    lines = ran.out.splitlines()
    assert lines[0] == "/sandbox"
    assert lines[1] == ("/sandbox C.UTF-8 /tmp /sandbox/.local /sandbox/.npm /sandbox/.claude")
    assert lines.pop(2) == "http://127.0.0.1:61100 127.0.0.1,localhost,::1"
    assert lines[2] == "mine"
    assert ".right/env.sh" in lines[3]
    assert lines[4] == box.path_env
    assert lines[4].split(":")[0] == "/sandbox/.local/bin"
    assert box.config_dir == "/sandbox/.claude"
    assert ran.err == ""


async def test_the_agents_own_env_file_counts_but_not_for_our_variables(box: Sandbox, run: Any) -> None:
    await run(
        box,
        """cat >.right/env.local.sh <<'END'
export GREETING='hello
world' PATH=$HOME/tools:$PATH HTTP_PROXY=http://evil ANTHROPIC_BASE_URL=http://evil
export MINE=theirs LD_PRELOAD=/x.so
echo noise; echo noise >&2; read -r line
END""",
    )
    show = 'echo "$GREETING|$PATH|$HTTP_PROXY|$ANTHROPIC_BASE_URL|$MINE|$LD_PRELOAD"; cat'
    process = await box.spawn(["bash", "-c", show], env={"MINE": "ours"})
    out, err = await process.communicate(b"stdin is whole\n")
    assert out.decode() == (
        f"hello\nworld|/sandbox/tools:{box.path_env}|http://127.0.0.1:61100||ours|\nstdin is whole\n"
    )
    assert err == b""


@pytest.mark.parametrize(
    "broken",
    [
        "exit 3",
        "if then",
        "kill -9 $$",
        "exec sleep 100",
        "unset PATH HOME",
        "set -e; false",
        "setsid sleep 100 >&10 & sleep 0.1",
    ],
)
async def test_a_broken_env_file_does_not_keep_the_agent_from_starting(
    box: Sandbox, run: Any, broken: str
) -> None:
    await run(box, 'printf %s "$BROKEN" >.right/env.local.sh', env={"BROKEN": broken})
    ran = await run(box, "echo started; rm .right/env.local.sh")
    assert (ran.code, ran.out) == (0, "started\n")


async def test_the_env_file_is_made_again_and_bashrc_is_left_alone(opening: Any, run: Any) -> None:
    box = await opening()
    await run(box, "echo broken >.right/env.sh; echo '# my own' >.bashrc; echo keep >notes")
    await box.close()
    again = await opening()
    ran = await run(again, "cat .bashrc notes; grep -c broken .right/env.sh")
    assert ran.out == "# my own\nkeep\n0\n"


async def test_tools_are_shown_read_only(opening: Any, run: Any, tmp_path: Path) -> None:
    real = tmp_path / "real-tool"
    real.write_text("#!/bin/sh\necho the tool\n")
    real.chmod(0o755)
    (tmp_path / "link").symlink_to(real)
    box = await opening(tools={"tool": tmp_path / "link"})
    assert box.tool("tool") == "/run/right/bin/tool"
    ran = await run(box, f"{box.tool('tool')}; tool; echo x >{box.tool('tool')}; rm -f {box.tool('tool')}")
    assert ran.out == "the tool\nthe tool\n"
    assert real.read_text().endswith("the tool\n")
    with pytest.raises(SandboxError, match="other"):
        box.tool("other")


async def test_a_missing_tool_is_one_clear_line(opening: Any, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="claude is not there: no such file"):
        await opening(tools={"claude": tmp_path / "claude"})
    with pytest.raises(SandboxError, match="not a regular file"):
        await opening(tools={"claude": tmp_path})
    with pytest.raises(SandboxError, match="no name"):
        await opening(tools={"../x": Path("/bin/true")})


async def test_arguments_input_and_output_pass_unchanged(box: Sandbox) -> None:
    words = ["a b", "", "$HOME", "new\nline", "'\"\\", "é\U0001f600", "-x", "--"]
    process = await box.spawn(["printf", "%s\\0", *words], env={})
    out, _ = await process.communicate()
    assert out.decode().split("\0")[:-1] == words
    process = await box.spawn(["cat"], env={})
    data = os.urandom(3_000_000)
    out, _ = await process.communicate(data)
    assert out == data


async def test_exit_codes_and_long_lines(box: Sandbox, run: Any) -> None:
    assert (await run(box, "exit 42")).code == 42
    assert (await run(box, "kill -9 $$")).code == 137
    process = await box.spawn(["no-such-program"], env={})
    _, err = await process.communicate()
    assert process.returncode == 127
    assert b"no-such-program" in err
    process = await box.spawn(["bash", "-c", "head -c 5000000 /dev/zero | tr '\\0' x; echo"], env={})
    assert process.stdout is not None
    assert len(await process.stdout.readline()) == 5_000_001
    await process.wait()


async def test_working_folder(box: Sandbox, run: Any) -> None:
    await run(box, "mkdir -p work")
    assert (await run(box, "pwd", cwd="/sandbox/work")).out == "/sandbox/work\n"
    with pytest.raises(SandboxError, match="working folder"):
        await run(box, "pwd", cwd="/sandbox/nowhere")


@pytest.mark.parametrize("how", ["group", "process", "close"])
async def test_killing_it_kills_everything_inside(box: Sandbox, how: str) -> None:
    marker = f"3{time.time_ns() % 10**9}.25"
    script = (
        f"(setsid nohup sleep {marker} >/dev/null 2>&1 &) ; sleep {marker} & disown; echo up; sleep {marker}"
    )
    process = await box.spawn(["bash", "-c", script], env={})
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    pids = host_pids(marker)
    assert len(pids) >= 3
    if how == "group":
        os.killpg(process.pid, signal.SIGKILL)
    elif how == "process":
        process.kill()
    else:
        await box.close()
    await asyncio.wait_for(process.wait(), 5)
    assert all([await gone(pid) for pid in pids])


async def test_what_is_left_behind_ends_with_the_program(box: Sandbox) -> None:
    marker = f"3{time.time_ns() % 10**9}.75"
    process = await box.spawn(["bash", "-c", f"(setsid sleep {marker} >/dev/null 2>&1 &); echo up"], env={})
    out, _ = await asyncio.wait_for(process.communicate(), 5)
    assert out == b"up\n"
    assert all([await gone(pid) for pid in host_pids(marker)])


async def test_it_is_in_a_session_of_its_own(box: Sandbox) -> None:
    process = await box.spawn(["sleep", "20"], env={})
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def test_killing_the_host_process_kills_the_guest(tmp_path: Path) -> None:
    marker = f"3{time.time_ns() % 10**9}.5"
    program = f"""
import asyncio, pathlib
from rightlab.sandbox import open_sandbox
async def main():
    base = pathlib.Path({str(tmp_path)!r})
    box = await open_sandbox(mode="bwrap", root=base / "agents/a/sandbox", run_dir=base / "run")
    process = await box.spawn(["bash", "-c", "(setsid sleep {marker} &) ; echo up; sleep {marker}"], env={{}})
    print(await process.stdout.readline(), flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        assert b"up" in await parent.stdout.readline()
        pids = [pid for pid in host_pids(marker) if pid != parent.pid]
        assert len(pids) >= 3
    finally:
        parent.kill()
        await parent.wait()
    assert all([await gone(pid) for pid in pids])


async def test_the_agents_own_programs_do_not_take_part_in_the_launch(box: Sandbox, run: Any) -> None:
    """An agent may install its own socat or rm; its sandbox is started and examined with the system's."""
    await run(
        box,
        "for p in socat sleep tail timeout env rm mv mkdir date cat bash; do "
        "printf '#!/bin/sh\\necho fake; exit 1\\n' >.local/bin/$p; chmod +x .local/bin/$p; done; "
        "echo 'export MINE=1' >.right/env.local.sh",
    )
    health = await box.health()
    assert health.ok, health.detail
    process = await box.spawn(["/bin/bash", "-c", "echo $MINE; rm x"], env={})
    out, _ = await process.communicate()
    assert out == b"1\nfake\n"


@pytest.mark.parametrize(
    ("socat", "says"),
    [
        ("bash -c 'echo E bind: address in use >&2; exit 1'", "E bind: address in use"),
        ("/nowhere/socat", "No such file"),
        ("true", "without a word"),
    ],
)
async def test_a_bridge_that_does_not_start_fails_the_launch_in_one_line(
    opening: Any, monkeypatch: pytest.MonkeyPatch, socat: str, says: str
) -> None:
    from rightlab.sandbox import bwrap, guest

    real = guest.init_script((guest.Bridge("egress", 61100, "/run/right/egress.sock"),))
    monkeypatch.setattr(bwrap, "init_script", lambda bridges: real.replace("exec socat", f"exec {socat}"))
    began = time.monotonic()
    with pytest.raises(SandboxError, match=f"the way to egress did not open: .*{says}") as caught:
        await opening()
    assert time.monotonic() - began < 5
    assert "\n" not in str(caught.value)


async def test_a_launch_that_hangs_is_ended(opening: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from rightlab.sandbox import bwrap

    marker = f"3{time.time_ns() % 10**9}.125"
    monkeypatch.setattr(bwrap, "init_script", lambda bridges: f"echo stuck >&2; sleep {marker}")
    monkeypatch.setattr(bwrap, "_LAUNCH_TIME", 0.5)
    with pytest.raises(SandboxError, match="did not start in time: stuck"):
        await opening()
    assert all([await gone(pid) for pid in host_pids(marker)])


async def test_a_launch_cancelled_at_any_moment_leaves_nothing(box: Sandbox) -> None:
    """bwrap ties the inner process to the outer one late; until then only the group's kill ends both."""
    marker = f"3{time.time_ns() % 10**9}.375"
    for number in range(30):
        task = asyncio.create_task(box.spawn(["sleep", marker], env={}))
        await asyncio.sleep(number * 0.002)
        task.cancel()
        try:
            process = await asyncio.wait_for(task, 10)
        except asyncio.CancelledError:
            continue
        process.kill()
        await asyncio.wait_for(process.wait(), 10)
    assert all([await gone(pid) for pid in host_pids(marker)])


async def test_a_host_process_killed_in_the_middle_of_launches_leaves_nothing(tmp_path: Path) -> None:
    marker = f"3{time.time_ns() % 10**9}.625"
    program = f"""
import asyncio, pathlib
from rightlab.sandbox import open_sandbox
async def main():
    base = pathlib.Path({str(tmp_path)!r})
    box = await open_sandbox(mode="bwrap", root=base / "agents/a/sandbox", run_dir=base / "run")
    print("up", flush=True)
    while True:
        await box.spawn(["sleep", "{marker}"], env={{}})
asyncio.run(main())
"""
    for number in range(4):
        parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
        assert parent.stdout is not None
        assert await parent.stdout.readline() == b"up\n"
        await asyncio.sleep(0.01 + number * 0.012)
        parent.kill()
        await parent.wait()
    assert all([await gone(pid) for pid in host_pids(marker)])


async def test_fail_closed_when_a_part_is_missing(
    opening: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs on the host instead (spec agent-runtime 9.4, C50)."""
    only = tmp_path / "bin"
    only.mkdir()
    for name in ("bwrap", "bash"):
        (only / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(only))
    for mode in ("bwrap", "auto"):
        with pytest.raises(SandboxError, match=r"socat not found.*apt install bubblewrap socat"):
            await opening(mode=mode)
    fallen = await opening(mode="auto", allow_none=True)
    assert fallen.mode == "none"
    assert "socat not found" in fallen.note
    with pytest.raises(SandboxError):
        await opening(mode="bwrap", allow_none=True)


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        ("bwrap: Creating new namespace failed: Operation not permitted", "make namespaces"),
        ("bwrap: setting up uid map: Permission denied", "make namespaces"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "make namespaces"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "mount /proc"),
        ("bwrap: Unknown option --perms", "too old"),
        ("bwrap: something else", "something else"),
        ("", "exit code 1"),
    ],
)
async def test_fail_closed_with_a_diagnosis_when_bwrap_is_down(
    opening: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, cause: str
) -> None:
    only = tmp_path / "bin"
    only.mkdir()
    (only / "bwrap").write_text(f'#!/bin/sh\n[ "$1" = --help ] || {{ echo "{says}" >&2; exit 1; }}\n')
    (only / "bwrap").chmod(0o755)
    for name in ("socat", "bash"):
        (only / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(only))
    with pytest.raises(SandboxError, match=cause) as caught:
        await opening(mode="auto")
    assert caught.value.fix
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "run" / "alice").glob("*.sock")), "the proxy is not left behind"


async def test_spawn_says_what_went_away(opening: Any, services: dict[str, Path], tmp_path: Path) -> None:
    box = await opening(services=services)
    services["mcp"].unlink()
    with pytest.raises(SandboxError, match="the mcp socket is not there"):
        await box.spawn(["true"], env={})
    await box.close()
    with pytest.raises(SandboxError, match="closed"):
        await box.spawn(["true"], env={})


async def test_health_is_seen_from_inside(opening: Any, services: dict[str, Path]) -> None:
    """OC#128026: never say sandboxed because a setting says so."""
    box = await opening(services=services)
    health = await box.health()
    assert health.ok, health
    names = [check.name for check in health.checks]
    assert set(names) >= {
        "folder",
        "uid",
        "capabilities",
        "privileges",
        "calls",
        "system",
        "kernel",
        "network",
        "proxy",
        "hidden",
    }
    services["gateway"].unlink()
    health = await box.health()
    assert not health.ok
    assert "gateway" in health.detail
    assert health.fix


async def test_health_names_a_folder_that_cannot_be_written(opening: Any, tmp_path: Path) -> None:
    box = await opening()
    (tmp_path / "agents/alice/sandbox").chmod(0o500)
    health = await box.health()
    (tmp_path / "agents/alice/sandbox").chmod(0o700)
    assert not health.ok
    assert "/sandbox is not writable" in health.detail


async def test_health_sees_a_dead_proxy(opening: Any) -> None:
    box = await opening()
    await box._proxy.stop()
    health = await box.health()
    assert not health.ok
    assert "egress" in health.detail


async def test_stale_sockets_of_dead_owners_are_swept(opening: Any, tmp_path: Path) -> None:
    run_dir = tmp_path / "run" / "alice"
    run_dir.mkdir(parents=True)
    bind_unix(run_dir / "egress-1-1.sock").close()
    alive = bind_unix(run_dir / "egress-1-2.sock")
    (run_dir / "egress-notes.sock").write_text("")
    await opening()
    assert not (run_dir / "egress-1-1.sock").exists()
    assert (run_dir / "egress-1-2.sock").exists()
    assert (run_dir / "egress-notes.sock").exists()
    alive.close()


async def test_two_owners_of_one_folder_do_not_disturb_each_other(opening: Any, run: Any) -> None:
    first, second = await opening(), await opening()
    await first.close()
    assert (await run(second, "echo hi >/dev/tcp/127.0.0.1/61100 && echo reached")).out == "reached\n"


async def test_many_at_once(box: Sandbox, run: Any) -> None:
    ran = await asyncio.gather(*(run(box, f"echo {number}", timeout=60) for number in range(8)))
    assert [each.out for each in ran] == [f"{number}\n" for number in range(8)]


async def test_modes(opening: Any) -> None:
    assert (await opening(mode="auto")).mode == "bwrap"
    for mode in ("landlock", "openshell"):
        with pytest.raises(NotAvailable, match="not available yet"):
            await opening(mode=mode)
    with pytest.raises(ConfigError, match="sandbox mode"):
        await opening(mode="docker")
    with pytest.raises(ConfigError, match="network_policy"):
        await opening(network_policy="open")


async def test_a_home_below_usr_is_refused() -> None:
    from rightlab.sandbox.mounts import sandbox_args

    with pytest.raises(SandboxError, match="which every sandbox can read"):
        sandbox_args(
            system=(),
            files={},
            root=Path("/usr/local/home"),
            sockets={},
            tools={},
            options="",
        )


def test_it_works_for_an_ordinary_user() -> None:
    """Forked and turned into nobody where the tests run as root; in CI and on laptops as they are."""
    base = Path(tempfile.mkdtemp(prefix="rl-user-", dir="/tmp"))
    if os.getuid() == 0:
        os.chown(base, 65534, 65534)
    asyncio.new_event_loop().close()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "nothing"
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            os.environ["HOME"] = str(base)
            answer = asyncio.run(_as_user(base))
        except BaseException as error:
            answer = repr(error)
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:
        answer = stream.read().decode()
    os.waitpid(child, 0)
    owner = (base / "sandbox" / "mine").stat().st_uid if (base / "sandbox" / "mine").exists() else None
    subprocess.run(["rm", "-rf", str(base)], check=True)
    assert answer == "1000 True"
    assert owner == (65534 if os.getuid() == 0 else os.getuid())


async def _as_user(base: Path) -> str:
    box = await open_sandbox(mode="bwrap", root=base / "sandbox", run_dir=base / "run")
    process = await box.spawn(["bash", "-c", "id -u; : >/sandbox/mine"], env={})
    out, _ = await process.communicate()
    health = await box.health()
    await box.close()
    return f"{out.decode().strip()} {health.ok or health.detail}"
