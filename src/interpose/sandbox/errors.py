"""What a sandbox refuses or cannot do, said so that a model can go on from it."""

import errno
import os

from interpose.errors import InterposeError


class SandboxError(InterposeError):
    """Something in a sandbox was refused or failed: a path that leads out, a file that is not there, a text not found.

    As the error of a tool, the model reads it; the run goes on.
    """


_TEXTS = {
    errno.ENOENT: "there is no {path!r} in the workspace; list the files to see what there is",
    errno.EXDEV: "{path!r} leads out of the workspace, by a link or by '..'; only what is inside can be used",
    errno.ELOOP: "{path!r} leads through a link that is not followed; use the path that it points to",
    errno.ENOTDIR: "a part of {path!r} is a file, and no folder",
    errno.EISDIR: "{path!r} is a folder, and no file",
    errno.EACCES: "{path!r} may not be used: no permission",
    errno.EPERM: "{path!r} may not be used: no permission",
    errno.ENAMETOOLONG: "the path is too long: {path!r}",
    errno.ENOSPC: "{path!r} could not be written: the disk is full",
    errno.EDQUOT: "{path!r} could not be written: the disk quota is reached",
    errno.EROFS: "{path!r} could not be written: it is on a read-only file system",
}


def refused(path: str, error: OSError) -> SandboxError:
    """Return *error*, of a file operation on *path*, as a model is to read it: with no path of the host."""
    shown = path if len(path) <= 200 else f"{path[:200]}..."
    text = _TEXTS.get(error.errno or 0)
    if text is None:
        return SandboxError(f"{shown!r}: {os.strerror(error.errno or errno.EIO)}")
    return SandboxError(text.format(path=shown))
