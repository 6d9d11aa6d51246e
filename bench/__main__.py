"""`python -m bench` is `python bench/run.py`."""

from bench.run import main

main()
