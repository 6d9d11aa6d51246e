"""The command line: `interpose run`, `interpose chat`, `interpose explain`."""

import sys

__all__ = ["main"]

NEEDED = ("cyclopts", "rich")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; *arguments* are those of the process where none are given."""
    try:
        from interpose.cli.app import run_app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in NEEDED:
            raise
        message = f"interpose: the command line needs {error.name}; install the extra: pip install 'interpose[cli]'"
        print(message, file=sys.stderr)  # noqa: T201  # there is no rich to print with
        return 1
    return run_app(arguments)
