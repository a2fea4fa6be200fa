"""Every path we write has one category, and nothing writes around the writers."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rightlab
from rightlab.errors import OwnershipError
from rightlab.home import (
    Category,
    Home,
    append_line,
    atomic_write,
    category_of,
    open_append,
    write_agent_owned,
    write_merged,
    write_regenerated,
)
from rightlab.home.ownership import TABLE, find_home_root

R, M, A, S = Category.REGENERATED, Category.MERGED, Category.AGENT_OWNED, Category.RUNTIME


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("rightlab.json", R),
        ("demo/rightlab.json", R),
        ("agents/a/agent.yaml", M),
        ("agents/a/allowlist.yaml", M),
        ("agents/a/secrets.json", M),
        ("agents/a/BOOTSTRAP.md", R),
        ("agents/a/data.db", S),
        ("agents/a/data.db-wal", S),
        ("agents/a/recordings/2026/x.json", S),
        ("agents/a/runs/daily/1.ipynb", S),
        ("agents/a/logs/turns.ndjson", S),
        ("agents/a/sandbox/TOOLS.md", A),
        ("agents/a/sandbox/SOUL.md", A),
        ("agents/a/sandbox/work/deep/er.txt", A),
        ("agents/a/sandbox/.claude/settings.local.json", A),
        ("agents/a/sandbox/.claude/skills/rightx-mine/SKILL.md", A),
        ("agents/a/sandbox/.claude/skills/right-cron/SKILL.md", R),
        ("agents/a/sandbox/.claude/settings.json", R),
        ("agents/a/sandbox/.claude/reply-schema.json", R),
        ("agents/a/sandbox/.claude/.claude.json", M),
        ("agents/a/sandbox/inbox/photo.jpg", S),
        ("notebooks/mine.ipynb", A),
        ("run/a/state.json", S),
        ("somewhere/else", None),
        ("agents/a/new-thing", None),
        ("agents/agent.yaml", None),
    ],
)
def test_the_table(path: str, category: Category | None) -> None:
    assert category_of(path) is category


def test_no_pattern_stands_twice_or_behind_one_that_hides_it() -> None:
    patterns = [pattern for pattern, _ in TABLE]
    assert len(set(patterns)) == len(patterns)
    for pattern, category in TABLE:
        sample = pattern.replace("**", "x/y").replace("*", "x")
        assert category_of(sample) is category, pattern


WRITERS: dict[str, tuple[Category, Callable[[Path], object]]] = {
    "write_regenerated": (R, lambda path: write_regenerated(path, "x")),
    "write_merged": (M, lambda path: write_merged(path, lambda old: "x")),
    "write_agent_owned": (A, lambda path: write_agent_owned(path, "x")),
    "atomic_write": (S, lambda path: atomic_write(path, "x")),
    "append_line": (S, lambda path: append_line(path, "x")),
    "open_append": (S, lambda path: open_append(path).close()),
}
SAMPLES = {
    R: "agents/a/sandbox/.claude/settings.json",
    M: "agents/a/sandbox/.claude.json",
    A: "agents/a/sandbox/TOOLS.md",
    S: "agents/a/logs/log",
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("category", SAMPLES)
def test_each_writer_takes_its_category_only(tmp_path: Path, writer: str, category: Category) -> None:
    home = Home(tmp_path / "home")
    home.mark()
    path = home.path / SAMPLES[category]
    own, write = WRITERS[writer]
    if own is category:
        write(path)
        assert path.exists()
    else:
        with pytest.raises(OwnershipError, match=f"is {category.value}, not {own.value}"):
            write(path)
        assert not path.exists()


@pytest.mark.parametrize("writer", WRITERS)
def test_no_writer_takes_an_unregistered_path_of_a_home(tmp_path: Path, writer: str) -> None:
    home = Home(tmp_path / "home")
    home.mark()
    with pytest.raises(OwnershipError, match="no ownership category"):
        WRITERS[writer][1](home.path / "somewhere" / "else")
    assert not (home.path / "somewhere").exists()


def test_paths_outside_every_home_belong_to_whoever_asked(tmp_path: Path) -> None:
    atomic_write(tmp_path / "export.html", "<p>")
    assert find_home_root(tmp_path / "export.html") is None


def test_a_mark_planted_by_an_agent_makes_no_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    agent = home.create_agent("alice")
    (agent.guest_dir / "rightlab.json").write_text("{}")
    (agent.guest_dir / ".claude" / "rightlab.json").write_text("{}")
    assert find_home_root(agent.guest_dir / ".claude" / "settings.json") == home.path


def test_the_demo_is_a_home_inside_a_home(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    demo = home.demo_home
    demo.mark()
    assert home.marked
    assert demo.marked
    assert find_home_root(demo.path / "notebooks" / "00.ipynb") == demo.path


# --- nothing writes around them -------------------------------------------------------------------

PACKAGE = Path(rightlab.__file__).parent

ALLOWED = {
    "home/writers.py": "the sanctioned writers",
    "home/home.py:_lease": "the lease is an flock, its file has no content",
    "runtime/lease.py": "the lease is an flock, its file has no content",
    "cron/claim.py:claim_run": "a claim is the hard link that only one process can make, of a file a writer wrote",
    "cron/execution.py": "touch() tells the saver of a change; the saver writes through the writers",
    "cron/runjob.py:_execute": "renames the notebook that its saver wrote",
    "store/copies.py:_read": "a private copy of somebody else's database, removed after reading",
    "store/connection.py:connect": "creates data.db with its permissions; SQLite writes it",
    "store/store.py:snapshot": "a copy made by SQLite, renamed into place",
    "sandbox/egress_log.py:_rotate": "renames its own full logs; their lines go through open_append",
}
"""File, or file:function, that may touch the file system itself, and why."""

_METHODS = {"write_text", "write_bytes", "symlink_to", "hardlink_to"}
_COPIES = {"copy", "copy2", "copyfile", "copytree", "copyfileobj", "move"}
_TEMPORARY = {"NamedTemporaryFile", "mkstemp"}
_OS = {"replace", "rename", "renames", "link", "symlink", "truncate"}


def _writes(call: ast.Call) -> str | None:
    """What a call writes with, or None. Deleting and making folders are no writing."""
    function = call.func
    if isinstance(function, ast.Name):
        writes = function.id == "open" and _mode_writes(call, 1)
        return function.id if writes or function.id in _COPIES - {"copy", "move"} | _TEMPORARY else None
    if not isinstance(function, ast.Attribute):
        return None
    name = function.attr
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    if owner == "os" and name == "open":
        text = ast.unparse(call)
        writes = "devnull" not in text and any(flag in text for flag in ("O_CREAT", "O_WRONLY", "O_RDWR"))
    elif owner in ("os", "shutil", "tempfile"):
        writes = name in {"os": _OS, "shutil": _COPIES, "tempfile": _TEMPORARY}[owner]
    elif name == "open":
        writes = _mode_writes(call, 1 if owner in ("io", "gzip") else 0)
    elif name == "touch":
        writes = not call.args and {keyword.arg for keyword in call.keywords} <= {"mode", "exist_ok"}
    elif name == "rename":
        writes = len(call.args) == 1 and not call.keywords
    else:
        writes = name in _METHODS
    return f"{owner}.{name}" if writes else None


def _mode_writes(call: ast.Call, position: int) -> bool:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"] or call.args[position:][:1]
    mode = given[0] if given else None
    return (
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and bool(set(mode.value) & set("wax+"))
    )


def _functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.Call]]:
    for node in ast.iter_child_nodes(tree):
        inner = name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not name:
            inner = node.name
        if isinstance(node, ast.Call):
            yield inner, node
        yield from _functions(node, inner)


def findings(source: str, relative: str) -> list[str]:
    return [
        f"{relative}:{call.lineno} {function or 'module'}() uses {found}"
        for function, call in _functions(ast.parse(source))
        if relative not in ALLOWED
        and f"{relative}:{function}" not in ALLOWED
        and (found := _writes(call)) is not None
    ]


@pytest.mark.parametrize(
    "line",
    [
        "open('f', 'w')",
        "open('f', mode='ab')",
        "path.open('x')",
        "path.write_text('x')",
        "Path('f').write_bytes(b'')",
        "os.open('f', os.O_CREAT | os.O_RDWR)",
        "os.replace('a', 'b')",
        "shutil.copy('a', 'b')",
        "shutil.copyfile('a', 'b')",
        "tempfile.NamedTemporaryFile()",
        "path.touch()",
        "path.rename(other)",
    ],
)
def test_the_scan_sees_writes(line: str) -> None:
    assert findings(f"def f():\n    {line}\n", "room/module.py")


@pytest.mark.parametrize(
    "line",
    ["open('f')", "open('f', 'rb')", "path.open()", "os.open('d', os.O_RDONLY)", "text.replace('a', 'b')"],
)
def test_the_scan_lets_reading_pass(line: str) -> None:
    assert not findings(f"def f():\n    {line}\n", "room/module.py")


def test_nothing_writes_around_the_writers() -> None:
    found = [
        finding
        for module in sorted(PACKAGE.rglob("*.py"))
        if "testing" not in module.relative_to(PACKAGE).parts
        for finding in findings(module.read_text(encoding="utf-8"), module.relative_to(PACKAGE).as_posix())
    ]
    assert found == []


def test_every_exception_to_the_rule_is_still_needed() -> None:
    for entry in ALLOWED:
        name, _, function = entry.partition(":")
        tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
        assert any(_writes(call) for inner, call in _functions(tree) if inner == function or not function), (
            entry
        )
