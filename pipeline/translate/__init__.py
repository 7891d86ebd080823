"""What a client is shown of a call.

Runs after the fold, because it reads what the fold produced. A delta passes the event's own delta, verbatim; the
authoritative input is told once, at the end; nothing is ever compared with what was sent before, so the cost is linear in the
number of deltas.
"""

from pipeline.translate.custom import CustomCall
from pipeline.translate.inputs import Draft, input_delta, input_done
from pipeline.translate.restore import Declarations
from pipeline.translate.routing import CUSTOM, Routes, face_of, label_of, parse_routes

__all__ = [
    "CUSTOM",
    "CustomCall",
    "Declarations",
    "Draft",
    "Routes",
    "face_of",
    "input_delta",
    "input_done",
    "label_of",
    "parse_routes",
]
