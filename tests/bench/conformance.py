"""Which test covers which row of the registry's conformance tables: ``python tests/bench/conformance.py [--json]``.

Reads the tests; a row is covered when its id stands in a test's name, docstring or parameters. ``SP_24_to_SP_29``
covers all in between. Exits 1 when a row has no test.
"""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "unit" / "prompt"

# Spec prompt-registry 2.1-2.4: the tables and how many rows each has.
ROWS = {
    "SP": [f"SP-{number:02}" for number in range(1, 32)],
    "SC": [f"SC-{number:02}" for number in range(1, 9)],
    "TO": [f"TO-{number:02}" for number in range(1, 13)],
    "B": [f"B-{number:02}" for number in range(1, 20)],
    "BI": [f"BI-{number}" for number in range(1, 11)],
}

_SPAN = re.compile(
    r"(?P<table>SP|SC|TO|BI|B)[-_](?P<first>\d+)[a-z]?(?:[-_ ]to[-_ ](?:(?P=table)[-_])?(?P<last>\d+))?"
)


def ids_in(text: str) -> Iterator[str]:
    """The row ids that ``text`` names; spans are spelt out."""
    for match in _SPAN.finditer(text):
        first, last = int(match["first"]), int(match["last"] or match["first"])
        for number in range(first, last + 1):
            yield f"{match['table']}-{number:02}" if match["table"] != "BI" else f"BI-{number}"


def tests_of(path: Path) -> Iterator[tuple[str, str]]:
    """(row id, test name) for every test function of a file."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            named = [node.name, ast.get_docstring(node) or ""]
            for decorator in node.decorator_list:
                named += [
                    item.value
                    for item in ast.walk(decorator)
                    if isinstance(item, ast.Constant) and isinstance(item.value, str)
                ]
            for row in dict.fromkeys(one for text in named for one in ids_in(text)):
                yield row, f"{path.name}::{node.name}"


def table() -> dict[str, list[str]]:
    """Every row id and the tests that cover it."""
    found: dict[str, list[str]] = {row: [] for rows in ROWS.values() for row in rows}
    for path in sorted(TESTS.glob("test_*.py")):
        for row, test in tests_of(path):
            if row in found and test not in found[row]:
                found[row].append(test)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args()
    found = table()
    missing = [row for row, tests in found.items() if not tests]
    if options.json:
        print(json.dumps({"rows": found, "missing": missing}, indent=1))
    else:
        wide = max(map(len, found))
        for row, tests in found.items():
            print(f"{row:<{wide}}  {', '.join(tests) or 'NO TEST'}")
        print(
            f"{len(found)} rows, {len(missing)} without a test{': ' + ', '.join(missing) if missing else ''}"
        )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
