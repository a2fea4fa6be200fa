"""Attempts to get out of a sandbox. Each does no harm where it succeeds."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightlab.errors import SandboxError
from rightlab.sandbox import Sandbox

pytestmark = pytest.mark.sandbox

# Says over the proxy's port what was asked for and prints the answer's first line and its body.
ASK = r"""
ask() {
  exec 3<>/dev/tcp/127.0.0.1/61100 || { echo "no proxy"; return; }
  printf 'CONNECT %s HTTP/1.1\r\n\r\n' "$1" >&3
  timeout 5 cat <&3; exec 3>&-
}
"""


async def test_nothing_of_the_host_is_in_sight(box: Sandbox, run: Any, tmp_path: Path) -> None:
    paths = [
        "/root",
        "/home",
        "/sys",
        "/boot",
        "/etc/shadow",
        "/etc/ssl/private",
        "/etc/resolv.conf",
        "/opt",
        "/srv",
    ]
    paths += [
        "/var/lib",
        "/etc/ssh",
        "/etc/sudoers",
        "/etc/pip.conf",
        "/etc/npmrc",
        "/etc/machine-id",
        "/mnt",
    ]
    paths += [
        str(tmp_path),
        str(Path.home()),
        str(Path(__file__)),
        "/var/run/docker.sock",
        "/run/systemd",
        "/run/user",
    ]
    ran = await run(
        box, 'for p in "$@"; do [[ -e $p || -L $p ]] && echo "$p"; done; :'.replace('"$@"', " ".join(paths))
    )
    assert ran.out == ""
    ran = await run(box, "ls -A / /tmp /run")
    assert ran.out.split() == [
        *("/:", "bin", "dev", "etc", "lib", *(["lib32"] if Path("/lib32").exists() else [])),
        *(["lib64"] if Path("/lib64").exists() else []),
        *(["libx32"] if Path("/libx32").exists() else []),
        *("proc", "run", "sandbox", "sbin", "tmp", "usr", "var", "/run:", "bridge", "right", "/tmp:"),
    ]


async def test_accounts_and_names_are_not_the_hosts(box: Sandbox, run: Any) -> None:
    ran = await run(box, "cat /etc/passwd /etc/hosts; uname -n; id -un")
    assert socket.gethostname() not in ran.out.split()
    assert ran.out.split()[-2:] == ["sandbox", "agent"]


async def test_other_agents_are_out_of_sight(opening: Any, run: Any, tmp_path: Path) -> None:
    alice, bob = await opening("alice"), await opening("bob")
    await run(bob, "echo secret >/sandbox/diary")
    other = tmp_path / "agents" / "bob" / "sandbox" / "diary"
    assert other.read_text() == "secret\n"
    ran = await run(
        alice, f"cat {other} /sandbox/../bob/sandbox/diary ../../bob/sandbox/diary; ls /sandbox/.."
    )
    assert "secret" not in ran.out
    assert "bob" not in ran.out


async def test_pain_headlong_72_planted_symlinks_lead_nowhere(opening: Any, run: Any, tmp_path: Path) -> None:
    """laude-institute/headlong PR#72: a symlink planted inside never becomes a mount or a host-side write."""
    secret = tmp_path / "host-secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    box = await opening()
    plant = f"""
      cd /sandbox; rm -rf .right .local .claude .npm .bashrc
      ln -s {secret} .right; ln -s {secret} .local; ln -s {secret} .claude; ln -s {secret} .npm
      ln -s {secret}/key .bashrc; ln -s {secret} up; ln -s / host; ln -s ../../.. above
    """
    await run(box, plant)
    await box.close()
    again = await opening()
    ran = await run(
        again, "cat up/key .bashrc .right/key host/etc/shadow above/host-secret/key 2>/dev/null; ls .right"
    )
    assert "private" not in ran.out
    assert "env.sh" in ran.out, "the agent's own folder is put right again"
    assert sorted(path.name for path in secret.iterdir()) == ["key"]
    assert (secret / "key").read_text() == "private"


async def test_a_root_that_is_a_symlink_is_refused(opening: Any, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / "agents" / "alice").mkdir(parents=True)
    (tmp_path / "agents" / "alice" / "sandbox").symlink_to(target)
    with pytest.raises(SandboxError, match="symlink"):
        await opening()
    assert list(target.iterdir()) == []


async def test_only_the_agents_folder_is_writable(box: Sandbox, run: Any, tmp_path: Path) -> None:
    name = f"rightlab-{secrets.token_hex(6)}"
    places = "/ /usr /usr/bin /usr/local /etc /etc/ssl/certs /bin /lib /proc /dev"
    places += " /run /run/right /run/right/files /run/right/bin"
    ran = await run(
        box, f"for d in {places}; do (: >$d/{name}) 2>/dev/null && echo $d; done; : >/sandbox/{name}"
    )
    assert ran.out == ""
    host = tmp_path / "agents" / "alice" / "sandbox" / name
    assert host.is_file()
    assert host.stat().st_uid == os.getuid(), "what the guest writes is the host user's"
    host.write_text("and the host writes back")
    assert (
        await run(box, f"cat /sandbox/{name}; echo more >>/sandbox/{name}")
    ).out == "and the host writes back"
    assert not Path("/usr", name).exists()


async def test_kernel_settings_cannot_be_written(box: Sandbox, run: Any) -> None:
    """As root's child uid 1000 is the kernel's uid 0, which may write sysctls without any capability."""
    script = r"""
      shopt -s globstar nullglob
      for f in /proc/sys/**/* /proc/sysrq-trigger /proc/irq/**/*; do
        [[ -f $f ]] && (: >>"$f") 2>/dev/null && echo "$f"
      done; :
    """
    assert (await run(box, script)).out == ""


async def test_no_capabilities_no_privileges_no_namespaces(box: Sandbox, run: Any) -> None:
    script = r"""
      grep -E '^(Uid|Gid|Cap...|NoNewPrivs):' /proc/self/status | tr '\t' ' '
      mount -t tmpfs none /tmp 2>/dev/null && echo mounted
      umount -l /proc 2>/dev/null && echo unmounted
      mount -o remount,rw /usr 2>/dev/null && echo remounted
      unshare -Ur true 2>/dev/null && echo namespace
      chroot / true 2>/dev/null && echo chroot
      mknod /tmp/disk b 8 0 2>/dev/null && echo node
      chown 0:0 /sandbox 2>/dev/null && echo owner
      cp /bin/bash /sandbox/b && chmod u+s /sandbox/b && /sandbox/b -p -c 'id -u'; rm -f /sandbox/b
    """
    ran = await run(box, script)
    lines = ran.out.splitlines()
    assert lines[0] == "Uid: 1000 1000 1000 1000"
    assert lines[1] == "Gid: 1000 1000 1000 1000"
    assert all(line.endswith("0000000000000000") for line in lines[2:7])
    assert lines[7] == "NoNewPrivs: 1"
    assert lines[8:] == ["1000"]


async def test_processes_of_the_host_are_out_of_reach(box: Sandbox, run: Any) -> None:
    marker = f"rightlab-{secrets.token_hex(6)}"
    host = await asyncio.create_subprocess_exec("sleep", "60", env={"MARK": marker})
    try:
        script = f"""
          kill -0 {host.pid} 2>/dev/null && echo signal
          grep -alr {marker} /proc/[0-9]*/environ 2>/dev/null
          ls -d /proc/[0-9]* | wc -l
          for p in /proc/[0-9]*/root/etc/shadow; do [[ -r $p ]] && echo $p; done
        """
        out = (await run(box, script)).out.split()
    finally:
        host.kill()
        await host.wait()
    assert len(out) == 1, out
    assert int(out[0]) < 15


@pytest.mark.parametrize("descriptor", ["0", "1", "2"])
async def test_nothing_but_its_pipes_is_handed_in(box: Sandbox, run: Any, descriptor: str) -> None:
    ran = await run(box, "for f in /proc/self/fd/*; do printf '%s %s\\n' ${f##*/} \"$(readlink $f)\"; done")
    kinds = dict(line.split(" ", 1) for line in ran.out.splitlines())
    kinds = {fd: kind for fd, kind in kinds.items() if kind}
    assert kinds[descriptor].startswith("pipe:")
    assert not [kind for fd, kind in kinds.items() if fd not in "012" and "/proc/" not in kind], kinds


async def test_the_environment_is_ours_alone(box: Sandbox, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTLAB_TEST_SECRET", "hidden")
    names = {line.partition("=")[0] for line in (await run(box, "env", env={"MINE": "1"})).out.splitlines()}
    assert names - set(box.env) == {"MINE", "PWD", "SHLVL", "_"}


async def test_values_of_variables_are_not_on_any_command_line(box: Sandbox) -> None:
    """Every user of the host can read command lines."""
    token = f"token-{secrets.token_hex(8)}"
    process = await box.spawn(["sleep", "30"], env={"TOKEN": token})
    try:
        seen = [
            path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)
        ]
        assert any(b"bwrap" in line for line in seen)
        assert not any(token.encode() in line for line in seen)
    finally:
        os.killpg(process.pid, 9)
        await process.wait()


async def test_no_way_to_the_network_but_the_proxy(box: Sandbox, run: Any, echo_server: int) -> None:
    name = f"rightlab-{secrets.token_hex(6)}"
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind("\0" + name)
    abstract.listen()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(0.3)
    script = f"""
      tcp() {{ timeout 3 bash -c "exec 3<>/dev/tcp/$1/$2" 2>/dev/null && echo "tcp $1"; }}
      tcp 1.1.1.1 443; tcp 127.0.0.1 {echo_server}; tcp 169.254.169.254 80; tcp 2606:4700:4700::1111 443
      echo hello 2>/dev/null >/dev/udp/127.0.0.1/{udp.getsockname()[1]}
      echo hello 2>/dev/null >/dev/udp/1.1.1.1/53 && echo udp
      socat -u OPEN:/dev/null ABSTRACT-CONNECT:{name} 2>/dev/null && echo abstract
      sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' '
    """
    try:
        ran = await run(box, script)
        # The sockets are really there for the host.
        (await asyncio.open_connection("127.0.0.1", echo_server))[1].close()
        with pytest.raises(TimeoutError):
            udp.recv(100)
    finally:
        abstract.close()
        udp.close()
    assert ran.out.split() == ["lo"]


@pytest.mark.parametrize(
    "authority",
    [
        "127.0.0.1:{port}",
        "localhost:{port}",
        "[::1]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "0x7f000001:{port}",
        "127.1:{port}",
        "169.254.169.254:80",
        "rebind.example:{port}",
        "{own}:{port}",
    ],
)
async def test_the_proxy_does_not_lead_home(
    opening: Any, run: Any, echo_server: int, log_lines: Callable[[], list[dict[str, Any]]], authority: str
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("1.1.1.1", 9))
            own = probe.getsockname()[0]
        except OSError:
            own = "127.0.0.2"
    box = await opening(resolver=resolve)
    target = authority.format(port=echo_server, own=own)
    ran = await run(box, ASK + f"ask {target}")
    assert ran.out.startswith("HTTP/1.1 403 Forbidden"), ran
    for _ in range(100):
        if log_lines():
            break
        await asyncio.sleep(0.01)
    (line,) = log_lines()
    assert line["verdict"] == "deny"
    assert line["agent"] == "alice"


async def test_public_addresses_are_reached_through_the_proxy(
    opening: Any, run: Any, echo_server: int, log_lines: Callable[[], list[dict[str, Any]]]
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34"]

    async def connect(address: str, port: int) -> Any:
        assert (address, port) == ("93.184.216.34", 443)
        return await asyncio.open_connection("127.0.0.1", echo_server)

    script = r"""
      exec 3<>/dev/tcp/127.0.0.1/61100; printf 'CONNECT example.com:443 HTTP/1.1\r\n\r\n' >&3
      read -r status <&3; read -r blank <&3; echo hi >&3; read -r line <&3; echo "$status $line"
    """
    permissive = await opening(resolver=resolve, connector=connect)
    assert (await run(permissive, script)).out == "HTTP/1.1 200 Connection established\r echo hi\n"
    restrictive = await opening("bob", resolver=resolve, connector=connect, network_policy="restrictive")
    assert (await run(restrictive, script)).out.startswith("HTTP/1.1 403")


async def test_vsock_does_not_lead_to_the_hypervisor(box: Sandbox, run: Any) -> None:
    """AF_VSOCK knows no network namespace; cid 1 is this machine itself."""
    ran = await run(box, "socat -u OPEN:/dev/null VSOCK-CONNECT:1:9; grep Seccomp: /proc/self/status")
    assert "socket(40," in ran.err
    assert "Address family not supported" in ran.err
    assert ran.out.split() == ["Seccomp:", "2"]


async def test_a_launch_sees_its_own_files_alone_and_read_only(box: Sandbox, run: Any) -> None:
    """Another invocation's folder holds the bearer that acts for another chat."""
    for name in ("one", "two"):
        (box.files_dir / name).mkdir()
        (box.files_dir / name / "script.sh").write_text(f"echo {name}")
    for name in ("one", "two"):
        files = box.files_dir / name
        at = box.files_at(files)
        ran = await run(box, f"bash {at}/script.sh; echo x >{at}/script.sh; ls -A {at} {at}/..", files=files)
        assert ran.out.split() == [
            name,
            "/run/right/files:",
            "script.sh",
            "/run/right/files/..:",
            "bin",
            "egress.sock",
            "files",
            "init",
        ]
        assert "Read-only" in ran.err
    other = await run(box, "ls -A /run/right/files; grep -rs 'echo one' /run /tmp /sandbox")
    assert other.out == ""
    (box.files_dir / "link").symlink_to("/etc")
    with pytest.raises(SandboxError, match="symlink"):
        await run(box, "true", files=box.files_dir / "link")


async def test_the_scratch_place_ends_with_its_launch(box: Sandbox, run: Any) -> None:
    files = box.files_dir / "one"
    files.mkdir()
    note = f"{box.scratch_at(files)}/prompt.md"
    assert (await run(box, f"echo mine >{note}; cat {note}", files=files)).out == "mine\n"
    assert (await run(box, f"cat {note}", files=files)).code != 0


async def test_the_runtimes_own_files_are_out_of_sight(box: Sandbox, run: Any) -> None:
    """state.json and the control socket lie beside the folder of the launches' files on the host."""
    (box.files_dir.parent / "state.json").write_text("tokens")
    files = box.files_dir / "one"
    files.mkdir()
    ran = await run(
        box,
        "ls -A /run/right /run/right/bin; cat /run/right/state.json /run/right/files/../../state.json",
        files=files,
    )
    assert "tokens" not in ran.out
    assert ran.out.split() == ["/run/right:", "bin", "egress.sock", "files", "init", "/run/right/bin:"]
