"""The example of the sandbox does what it says, as its reader runs it."""

import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).parents[2] / "examples" / "sandbox" / "fix.py"


def test_example_mends_the_program_and_shows_the_change() -> None:
    out = subprocess.run([sys.executable, str(FILE)], capture_output=True, text=True, timeout=50, check=True).stdout
    assert "-    return sum(numbers) / len(numbers)\n+    return sum(numbers) / len(numbers) if numbers else 0" in out
    assert "all is well\nThe mean of no numbers" in out
