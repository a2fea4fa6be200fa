"""The guest script: POSIX ``sh`` that writes the prompt file and becomes the CLI (spec agent-runtime 1.1).

It holds the compiled-in text and reads the agent's files again when it runs, so an edit made after assembly
still reaches this very turn. What it writes equals ``Assembly.render_bytes()`` for the same files, byte for
byte. Few processes are started: text is written by the shell's own ``printf``.
"""

import os
from collections.abc import Sequence

from rightlab.prompt.assembly import AssembledSection, Assembly
from rightlab.prompt.files import check_guest_path
from rightlab.prompt.guard import BEGIN, END, encode, notice, sed_program

__all__ = ["ASSEMBLY_FAILED", "build_assembly_script", "shell_quote"]

ASSEMBLY_FAILED = 74
"""Exit status of the script when it could not write a complete prompt file; the CLI was not started then."""

_GAP = b"\n\n"


def shell_quote(data: bytes) -> bytes:
    """``data`` (without NUL) as one word of ``sh``, whatever bytes it holds."""
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def build_assembly_script(
    assembly: Assembly,
    *,
    root: str | os.PathLike[str],
    prompt_file: str | os.PathLike[str],
    argv: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
) -> str:
    """A script for ``sh`` that writes ``assembly`` to ``prompt_file`` and then ``exec``s ``argv``.

    ``root`` and ``prompt_file`` are paths where the script runs. The files of the sections are read from
    ``root`` when it runs, also those that were missing at assembly. The prompt file is made beside its final
    name with mode 0600 and moved there whole. ``argv`` gets the script's stdin and the caller's umask.
    ``cwd`` is entered first when given. When anything goes wrong the script says so in one line on stderr,
    exits with :data:`ASSEMBLY_FAILED` and starts nothing.

    Raises what rendering raises (:class:`PromptError`); ``ValueError`` for an empty ``argv`` or a NUL in it.
    """
    if not argv:
        raise ValueError("the script needs a command to start")
    folder = os.fsencode(root)
    target = os.fsencode(prompt_file)
    plan = [one for one in assembly.planned() if one.file is not None or one.render_bytes()]
    lines = [
        b"#!/bin/sh",
        b"p=" + _word(target),
        b't="$p.$$.tmp"',
        b"r=" + _word(folder),
        b'die() { rm -f -- "$t"; printf \'rightlab: no prompt file: %s\\n\' "$1" >&2; exit '
        + str(ASSEMBLY_FAILED).encode()
        + b"; }",
        b"(",
        b"umask 077",
        b"PATH=/usr/bin:/bin:$PATH",
        *_folder(target),
        b'[ ! -d "$p" ] || die "$p is a folder"',
        b'if [ -e "$t" ] || [ -L "$t" ]; then rm -f -- "$t" || die "cannot clear $t"; fi',
        *_survey(plan),
        b"set -C",
        b"{",
        *_body(plan),
        b'} >"$t" || die "cannot write $t"',
        b'exec mv -f -- "$t" "$p"',
        b")",
        b'case "$?" in 0) ;; '
        + str(ASSEMBLY_FAILED).encode()
        + b") exit "
        + str(ASSEMBLY_FAILED).encode()
        + b";;",
        b'*) die "cannot move it to $p";; esac',
    ]
    if cwd is not None:
        lines.append(b"cd -- " + _word(os.fsencode(cwd)) + b" || die 'cannot enter the working folder'")
    lines.append(b"exec " + b" ".join(_word(encode(one)) for one in argv))
    return b"\n".join((*lines, b"")).decode("utf-8", "surrogateescape")


def _word(data: bytes) -> bytes:
    if b"\0" in data:
        raise ValueError("a NUL byte cannot be part of a command")
    return shell_quote(data)


def _folder(target: bytes) -> list[bytes]:
    parent = os.path.dirname(target)
    if not parent:
        return []
    word = _word(parent)
    return [
        b"[ -d "
        + word
        + b" ] || mkdir -p -- "
        + word
        + b" || die 'cannot make the folder of the prompt file'"
    ]


def _survey(plan: Sequence[AssembledSection]) -> list[bytes]:
    """Find out, with one ``grep``, which files there are: regular, no symlink, not only white space."""
    files = list(dict.fromkeys(one.file for one in plan if one.file is not None))
    if not files:
        return []
    lines = [b"have=", b"set --"]
    for file in files:
        steps = check_guest_path(file).split("/")
        tests = []
        for depth in range(1, len(steps)):
            above = b'"$r"/' + _word(encode("/".join(steps[:depth])))
            tests += [b"[ ! -L " + above + b" ]", b"[ -d " + above + b" ]"]
        path = b'"$r"/' + _word(encode(file))
        tests += [
            b"[ -f " + path + b" ]",
            b"[ ! -L " + path + b" ]",
            b"[ -r " + path + b" ]",
            b"[ -s " + path + b" ]",
        ]
        lines.append(b" && ".join(tests) + b' && set -- "$@" ' + _word(encode("./" + file)))
    pattern = _word(b"[^ \t\v\f\r]")
    return [
        *lines,
        b'if [ "$#" -gt 0 ]; then',
        b'have=$(cd -- "$r" && LC_ALL=C exec grep -la -e ' + pattern + b' -- "$@")',
        b'[ "$?" -le 1 ] || die "cannot read the files in $r"',
        b"fi",
        b'have="',
        b"$have",
        b'"',
    ]


def _body(plan: Sequence[AssembledSection]) -> list[bytes]:
    """The writing itself. ``g`` is the gap before the next section as long as nothing certain was written."""
    lines: list[bytes] = []
    text = b""
    certain = False
    if any(one.file is not None for one in plan):
        lines.append(b"g=")
    for one in plan:
        if one.file is None:
            data = one.render_bytes()
            if certain:
                text += _GAP + data
            else:
                if lines:
                    lines.append(b'printf %s "$g" || die "cannot write $t"')
                text = data
                certain = True
            continue
        if text:
            lines += _print(text)
            text = b""
        lines += _file(one, certain)
    if text:
        lines += _print(text)
    return lines or [b":"]


def _file(one: AssembledSection, certain: bool) -> list[bytes]:
    file = encode(one.file or "")
    heading = encode(one.heading())
    above = heading + b"\n" if heading else b""
    below = b""
    if one.wrap is not None:
        above += notice(one.wrap).encode() + b"\n\n" + BEGIN.encode() + b"\n"
        below = b"\n" + END.encode()
    if certain:
        start = _print(_GAP + above)
    else:
        start = [b'printf %s "$g" || die "cannot write $t"', *_print(above), b"g='\n\n'"]
    path = b'"$r"/' + _word(file)
    return [
        b'case "$have" in *' + _word(b"\n./" + file + b"\n") + b"*)",
        *start,
        _reader(one, path) + b" || die " + _word(b"cannot read " + file),
        *_print(below),
        b";;",
        b"esac",
    ]


def _reader(one: AssembledSection, path: bytes) -> bytes:
    head = b"" if one.head is None else str(one.head).encode()
    if one.wrap is not None:
        stop = b"\n" + head + b"q" if head else b""
        return b"LC_ALL=C sed -E -e " + _word(sed_program() + stop) + b" -- " + path
    if head:
        return b"head -n " + head + b" -- " + path
    return b"cat -- " + path


def _print(data: bytes) -> list[bytes]:
    """``printf`` commands for ``data``; NUL, which no shell word can hold, goes through the format."""
    if not data:
        return []
    pieces = data.split(b"\0")
    form = b"\\0".join(b"%s" for _ in pieces)
    words = b" ".join(shell_quote(piece) for piece in pieces)
    return [b"printf " + _word(form) + b" " + words + b' || die "cannot write $t"']
