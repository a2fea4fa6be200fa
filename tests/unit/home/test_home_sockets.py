"""Unix sockets at any depth of folder."""

import asyncio
import os
from pathlib import Path

import pytest

from rightlab.errors import RightlabError
from rightlab.home import bind_unix, connect_unix, open_unix


@pytest.fixture(params=["short", "long"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / "s.sock" if request.param == "short" else tmp_path / ("a" * 90) / ("b" * 90) / "s.sock"


async def test_a_conversation(place: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, sock=bind_unix(place)):
        reader, writer = await open_unix(place, limit=2**20)
        writer.write(b"hello\n")
        assert await reader.readline() == b"HELLO\n"
        writer.close()
        await writer.wait_closed()

        def ask() -> bytes:
            with connect_unix(place, timeout=5) as connection:
                connection.sendall(b"again\n")
                return connection.recv(100)

        assert await asyncio.to_thread(ask) == b"AGAIN\n"


def test_permissions_and_state(place: Path) -> None:
    with bind_unix(place) as listener:
        assert place.stat().st_mode & 0o777 == 0o600
        assert place.parent.stat().st_mode & 0o077 == 0 or "a" * 90 not in str(place)
        assert not listener.getblocking()


def test_a_dead_socket_is_replaced_a_live_one_not(place: Path) -> None:
    bind_unix(place).close()
    with bind_unix(place):
        with pytest.raises(RightlabError, match="listening here already"):
            bind_unix(place)
        connect_unix(place).close()


def test_a_file_in_the_way_is_left_alone(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("mine")
    with pytest.raises(RightlabError, match="a file where the socket should be"):
        bind_unix(place)
    assert place.read_text() == "mine"


async def test_nobody_there(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with pytest.raises(FileNotFoundError):
        connect_unix(place)
    with pytest.raises(FileNotFoundError):
        await open_unix(place)
    bind_unix(place).close()
    with pytest.raises(ConnectionRefusedError):
        await open_unix(place)


def test_no_descriptor_leaks(place: Path) -> None:
    bind_unix(place).close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        bind_unix(place).close()
        with pytest.raises(ConnectionRefusedError):
            connect_unix(place)
    assert len(os.listdir("/proc/self/fd")) == before
