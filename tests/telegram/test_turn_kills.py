"""A fixed sample of ``tests/bench/turn_kills.py``: whole agents killed at random moments while several chats talk."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench" / "turn_kills.py"


@pytest.mark.claude
@pytest.mark.sandbox
def test_nothing_is_lost_or_answered_twice_or_out_of_order() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH), "--kills", "6", "--json"],
        capture_output=True,
        text=True,
        timeout=420,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["violations"] == []
    assert found["kills"] == sum(found["killed"].values()) == 6
    assert found["messages"] > 10
    assert sum(found["turns"].values()) > 3
