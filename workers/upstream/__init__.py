"""How a request is put to an upstream: one shape from clients, each wire's own form on the way out."""

from workers.upstream.dialects import DIALECTS, Dialect, translate
from workers.upstream.reading import VERBATIM, UnsupportedError
from workers.upstream.stand_ins import with_stand_ins

__all__ = ["DIALECTS", "VERBATIM", "Dialect", "UnsupportedError", "translate", "with_stand_ins"]
