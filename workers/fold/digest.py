"""The chained digest of a turn's output: what a rebuild is compared by, and what tells two folds of one log apart.

Each frame and each block is a link, so the digest does not depend on how the output was cut into commits.
"""

import hashlib

from pipeline.output import Output

EMPTY = ""
"""The digest of a turn that has no output yet."""


def advance(digest: str, output: Output) -> str:
    """The digest after this output: frames in order, then blocks in order."""
    link = bytes.fromhex(digest)
    for frame in output.frames:
        link = hashlib.sha256(b"".join((link, b"f", frame.event.encode(), b"\n", frame.data))).digest()
    for block in output.blocks:
        fields = "\x00".join(f"{name}={value}" for name, value in block.as_fields().items())
        link = hashlib.sha256(b"".join((link, b"b", fields.encode()))).digest()
    return link.hex()
