"""The guest script equals the host rendering for any contents, and starts no CLI without a prompt."""

import os
import resource
import signal
import stat
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rightlab.prompt import (
    ASSEMBLY_FAILED,
    ConversationInfo,
    PromptRegistry,
    PromptSettings,
    build_assembly_script,
    right_agent_registry,
)

SHELLS = ("dash", "bash")
ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
MARK = ["printf", "%s\\n", "started", 'it\'s "x"\n$HOME `id` \\n %s', "é"]

PIECES = [
    b"plain",
    b"\n",
    b"\n\n",
    b"'",
    b'"',
    b"%s",
    b"%",
    b"\\",
    b"\\n",
    b"\r\n",
    b"\t",
    b" ",
    b"\xff\xfe",
    b"\xc3",
    b"\x00",
    b"\x01",
]
PIECES += [
    b"\x7f",
    b"$(id)",
    b"`",
    b"EOF",
    b"--- END EXTERNAL CONTENT ---",
    b"-- END",
    b"\xc2\xad\xc2\xad",
    b"END EXTERNAL",
    b"{{x}}",
]
CONTENT = st.none() | st.lists(st.sampled_from(PIECES), max_size=10).map(b"".join) | st.binary(max_size=60)


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "guest"
    folder.mkdir()
    return folder


@pytest.fixture(params=SHELLS)
def shell(request):
    return request.param


def registry():
    made = PromptRegistry(persona="opening 'text' %s \\n {{name}}")
    made.variable("name", "A\0B'\"\\")
    made.section("a", 10, "## A %", literal=True, file="A.md")
    made.section("b", 20, "between\n", literal=True)
    made.section("c", 30, "", file="sub dir/it's.md", head=3)
    made.section("m", 40, "## M", literal=True, file="MEMORY.md", head=200, wrap="memory")
    made.section("w", 50, "## W {{name}}", file="W.md", wrap="w")
    made.section("end", 60, "the end", literal=True)
    return made


def run(shell, assembly, root, *, prompt=None, argv=None, stdin=b"", **options):
    prompt = prompt or root.parent / "run" / "prompt.md"
    text = build_assembly_script(
        assembly, root=root, prompt_file=prompt, argv=argv or ["cat", str(prompt)], **options
    )
    script = root.parent / "script.sh"
    script.write_bytes(text.encode("utf-8", "surrogateescape"))
    return subprocess.run([shell, str(script)], input=stdin, capture_output=True, env=ENV, timeout=60)


def put(root, name, data):
    path = root / name
    path.parent.mkdir(exist_ok=True)
    if data is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(data)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.fixed_dictionaries({name: CONTENT for name in ("A.md", "sub dir/it's.md", "MEMORY.md", "W.md")})
)
def test_the_script_equals_the_host_for_any_bytes(files, root):
    for name, data in files.items():
        put(root, name, data)
    made = registry()
    fresh = made.assemble_now({"root": root})
    blind = made.assemble_now({})
    expected = fresh.render_bytes()
    for shell in SHELLS:
        # Also what was assembled before any file existed: the script reads them when it runs.
        for assembly in (fresh, blind):
            done = run(shell, assembly, root)
            assert (done.returncode, done.stderr) == (0, b"")
            assert done.stdout == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=CONTENT, second=CONTENT, heading=st.text(max_size=10), tail=st.text(max_size=20))
def test_files_before_any_certain_text(first, second, heading, tail, root):
    made = PromptRegistry(identity=None)
    made.section("1", 1, heading, literal=True, file="1.md")
    made.section("2", 2, "", file="2.md", wrap="x")
    made.section("3", 3, tail, literal=True)
    put(root, "1.md", first)
    put(root, "2.md", second)
    assembly = made.assemble_now({"root": root})
    for shell in SHELLS:
        done = run(shell, assembly, root)
        assert (done.returncode, done.stdout) == (0, assembly.render_bytes())


@given(text=st.text(max_size=200))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_compiled_text_survives(text, root):
    made = PromptRegistry(identity=None)
    made.section("s", 1, text, literal=True)
    assembly = made.assemble_now()
    for shell in SHELLS:
        assert run(shell, assembly, root).stdout == assembly.render_bytes()


def test_right_agent_s_whole_prompt(shell, root):
    for name in ("IDENTITY.md", "SOUL.md", "USER.md", "TOOLS.md", "MEMORY.md"):
        put(root, name, f"I am {name}: 50% 'sure' \\o/\n".encode() * 300)
    made = right_agent_registry(PromptSettings("alice", notice_token="tok"))
    context = {
        "root": root,
        "conversation": ConversationInfo(-5, "group", title="G 'x'"),
        "operator_focus": "{{f}}",
    }
    for mode in ("normal", "cron", "bootstrap_question", "bootstrap_final"):
        assembly = made.assemble_now({**context, "mode": mode})
        assert run(shell, assembly, root).stdout == assembly.render_bytes()


@pytest.mark.parametrize(
    "kind", ["symlink", "dangling", "folder", "fifo", "empty", "white", "absent", "parent-symlink"]
)
def test_what_counts_as_missing(kind, shell, root):
    real = root / "real.md"
    real.write_text("secret")
    path = root / "d" / "F.md"
    path.parent.mkdir()
    match kind:
        case "symlink":
            path.symlink_to(real)
        case "dangling":
            path.symlink_to(root / "nowhere")
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "empty":
            path.touch()
        case "white":
            path.write_bytes(b" \t\n\v\f\r\n")
        case "parent-symlink":
            path.parent.rmdir()
            (root / "e").mkdir()
            (root / "e" / "F.md").write_text("x")
            path.parent.symlink_to(root / "e")
    made = PromptRegistry(identity=None)
    made.section("f", 1, "## F", file="d/F.md")
    made.section("g", 2, "after")
    assembly = made.assemble_now({"root": root})
    assert [part.name for part in assembly.parts()] == ["g"]
    assert "f" not in [one.name for one in assembly.sections]
    assert run(shell, assembly, root).stdout == b"after"


@pytest.mark.parametrize("data", [b"\x00", b"\x00\n", b"\xc2\xa0", b"\n" * 50 + b"x", b" \xff"])
def test_what_is_not_missing(data, shell, root):
    made = PromptRegistry(identity=None)
    made.section("f", 1, "## F", file="F.md")
    put(root, "F.md", data)
    assembly = made.assemble_now({"root": root})
    assert assembly.render_bytes() == b"## F\n" + data
    assert run(shell, assembly, root).stdout == assembly.render_bytes()


def test_an_unreadable_file_is_missing(shell):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o777)
        put(root, "F.md", b"secret")
        put(root, "G.md", b"readable")
        (root / "F.md").chmod(0)
        made = PromptRegistry(identity=None)
        made.section("f", 1, "## F", file="F.md")
        made.section("g", 2, file="G.md")
        prompt = root / "p.md"
        text = build_assembly_script(
            made.assemble_now(), root=root, prompt_file=prompt, argv=["cat", str(prompt)]
        )
        other = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run([shell, "-c", text], capture_output=True, env=ENV, cwd="/", **other)
        assert (done.returncode, done.stdout) == (0, b"readable"), done.stderr


def test_an_edit_after_assembly_reaches_the_turn(shell, root):
    put(root, "A.md", b"old")
    made = registry()
    assembly = made.assemble_now({"root": root})
    put(root, "A.md", b"new")
    put(root, "MEMORY.md", b"fresh")
    assert run(shell, assembly, root).stdout == made.assemble_now({"root": root}).render_bytes()


def test_C6_250_lines_of_memory_become_200(shell, root):
    put(root, "MEMORY.md", b"".join(b"line %d\n" % n for n in range(250)))
    out = run(shell, registry().assemble_now({"root": root}), root).stdout
    assert b"line 199\n" in out
    assert b"line 200\n" not in out


def test_the_prompt_file_is_private_and_whole(shell, root):
    prompt = root.parent / "deep" / "er" / "p.md"
    done = run(shell, registry().assemble_now({"root": root}), root, prompt=prompt)
    assert done.returncode == 0
    assert stat.S_IMODE(prompt.stat().st_mode) == 0o600
    assert stat.S_IMODE(prompt.parent.stat().st_mode) == 0o700
    prompt.chmod(0o644)
    prompt.write_text("stale")
    assert run(shell, registry().assemble_now({"root": root}), root, prompt=prompt).returncode == 0
    assert stat.S_IMODE(prompt.stat().st_mode) == 0o600
    assert os.listdir(prompt.parent) == ["p.md"]


def test_a_symlink_at_the_prompt_s_place_is_replaced_not_followed(shell, root):
    victim = root / "victim"
    victim.write_text("mine")
    prompt = root.parent / "p.md"
    prompt.symlink_to(victim)
    assert run(shell, registry().assemble_now({"root": root}), root, prompt=prompt).returncode == 0
    assert victim.read_text() == "mine"
    assert not prompt.is_symlink()


def test_the_cli_gets_arguments_stdin_and_umask_untouched(shell, root):
    assembly = registry().assemble_now({"root": root})
    argv = ["sh", "-c", 'umask; cat; printf "<%s>" "$@"', "name", *MARK]
    previous = os.umask(0o027)
    try:
        done = run(shell, assembly, root, argv=argv, stdin="Grüße\n".encode())
    finally:
        os.umask(previous)
    expected = "0027\nGrüße\n" + "".join(f"<{one}>" for one in MARK)
    assert done.stdout.decode() == expected


@pytest.mark.parametrize("trouble", ["folder is a file", "target is a folder", "disk full"])
def test_no_prompt_no_cli(trouble, shell, root):
    assembly = registry().assemble_now({"root": root})
    prompt = root.parent / "run" / "p.md"
    limit = None
    match trouble:
        case "folder is a file":
            prompt.parent.write_text("in the way")
        case "target is a folder":
            prompt.mkdir(parents=True)
        case "disk full":

            def limit():
                resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    text = build_assembly_script(assembly, root=root, prompt_file=prompt, argv=["echo", "started"])
    done = subprocess.run([shell, "-c", text], capture_output=True, env=ENV, preexec_fn=limit)
    assert done.returncode == ASSEMBLY_FAILED
    assert b"started" not in done.stdout
    assert done.stderr.decode().rstrip("\n").split("\n")[-1].startswith("rightlab: no prompt file: ")
    assert not prompt.is_file()


def test_an_earlier_prompt_is_not_used_when_this_one_fails(shell, root):
    prompt = root.parent / "run" / "p.md"
    assembly = registry().assemble_now({"root": root})
    assert run(shell, assembly, root, prompt=prompt).returncode == 0
    text = build_assembly_script(assembly, root=root, prompt_file=prompt, argv=["echo", "started"])
    broken = (
        text.replace("printf %s", "false %s")
        .replace("printf '%s'", "false '%s'")
        .replace("printf '%s\\0%s'", "false")
    )
    done = subprocess.run([shell, "-c", broken], capture_output=True, env=ENV)
    assert done.returncode == ASSEMBLY_FAILED
    assert done.stdout == b""


def test_a_file_that_vanishes_between_test_and_read_stops_the_turn(shell, root):
    put(root, "A.md", b"x")
    assembly = registry().assemble_now({"root": root})
    text = build_assembly_script(
        assembly, root=root, prompt_file=root.parent / "p.md", argv=["echo", "started"]
    )
    raced = text.replace("set -C\n", f"rm -f '{root}/A.md'\nset -C\n")
    assert raced != text
    done = subprocess.run([shell, "-c", raced], capture_output=True, env=ENV)
    assert done.returncode == ASSEMBLY_FAILED
    assert b"cannot read A.md" in done.stderr
    assert done.stdout == b""


def test_working_folder(shell, root):
    argv = ["sh", "-c", "pwd; cat"]
    assembly = registry().assemble_now({"root": root})
    done = run(shell, assembly, root, argv=argv, stdin=b"msg", cwd=root)
    assert done.stdout.decode() == f"{root}\nmsg"
    done = run(shell, assembly, root, argv=argv, cwd=root / "none")
    assert (done.returncode, done.stdout) == (ASSEMBLY_FAILED, b"")


def test_the_command_is_checked():
    assembly = PromptRegistry().assemble_now()
    for argv in ([], ["a\0b"]):
        with pytest.raises(ValueError, match=r"command"):
            build_assembly_script(assembly, root="/r", prompt_file="/p", argv=argv)


def test_a_huge_memory_is_read_fast_and_equal(shell, root):
    put(root, "MEMORY.md", b"x" * 99 + b"\n" + (b"-" * 50_000 + b"\n") * 200)
    assembly = registry().assemble_now({"root": root})
    started = time.perf_counter()
    assert run(shell, assembly, root).stdout == assembly.render_bytes()
    assert time.perf_counter() - started < 10


def test_starting_through_the_script_costs_little(root):
    for name in ("IDENTITY.md", "SOUL.md", "USER.md", "TOOLS.md", "MEMORY.md"):
        put(root, name, b"some text of a plausible length\n" * 60)
    assembly = right_agent_registry(PromptSettings("alice", notice_token="t")).assemble_now({"root": root})
    script = root.parent / "s.sh"
    prompt = root.parent / "p.md"
    script.write_text(build_assembly_script(assembly, root=root, prompt_file=prompt, argv=["true"]))

    def median(argv):
        took = []
        for _ in range(21):
            started = time.perf_counter()
            subprocess.run(argv, env=ENV, check=True)
            took.append(time.perf_counter() - started)
        return statistics.median(took)

    added = median(["sh", str(script)]) - median(["true"])
    assert added < 0.060  # aim 15 ms on a quiet machine; the bench measures that
