"""What a run left behind, to read: reports as files and pages, and a log in the console."""

from interpose.report.comparison import compare
from interpose.report.console import ConsoleLog
from interpose.report.report import Report
from interpose.report.stored import StoredRun, find_run, stored_runs

__all__ = ["ConsoleLog", "Report", "StoredRun", "compare", "find_run", "stored_runs"]
