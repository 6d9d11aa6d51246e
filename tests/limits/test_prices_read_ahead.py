"""The list of prices is large: it is read in advance, beside the run."""

import subprocess
import sys

import pytest


def test_list_of_prices_is_read_while_the_first_client_works_not_on_the_loop() -> None:
    pytest.importorskip("genai_prices", reason="needs the extra prices")
    code = """
import asyncio, sys, threading
from interpose.models.clients import ClientPerLoop

class Client:
    async def close(self): pass

async def main():
    assert "genai_prices" not in sys.modules
    await ClientPerLoop(Client).get()
    reading = [one for one in threading.enumerate() if one.name == "interpose-prices"]
    for one in reading:
        await asyncio.to_thread(one.join)
    assert reading and "genai_prices" in sys.modules
    await ClientPerLoop(Client).get()
    assert not [one for one in threading.enumerate() if one.name == "interpose-prices"]

asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
