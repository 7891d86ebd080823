"""The kinds of output items, one table; and the state of one item that its rows work on."""

from pipeline.kinds.needs import unmet
from pipeline.kinds.row import Kind, Served
from pipeline.kinds.table import KINDS, kind_of, kind_of_tool, kind_of_track, takes

__all__ = ["KINDS", "Kind", "Served", "kind_of", "kind_of_tool", "kind_of_track", "takes", "unmet"]
