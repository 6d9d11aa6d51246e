"""The sandbox: one folder for a run, with commands and files in it, isolated; and what changes there told to hooks."""

from interpose.sandbox.box import SANDBOX, Box, Match
from interpose.sandbox.errors import SandboxError
from interpose.sandbox.files import Entry
from interpose.sandbox.limits import CommandLimits
from interpose.sandbox.middleware import Sandbox
from interpose.sandbox.process import CommandResult

__all__ = ["Box", "CommandLimits", "CommandResult", "Entry", "Match", "SANDBOX", "Sandbox", "SandboxError"]
