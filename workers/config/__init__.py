"""Configuration: one TOML file and ``FOLDLINE_*`` variables, read once at start, refused when anything in it is not known.

Precedence: environment over file over defaults. Secrets never stand in it, only the names of the variables that hold them.
"""

from workers.config.checks import check
from workers.config.load import ConfigError, Loaded, Setting, load, load_with_sources
from workers.config.schema import (
    Config,
    DeliveryConfig,
    FoldConfig,
    GatewayConfig,
    IngestConfig,
    LimitsConfig,
    LogConfig,
    ModesConfig,
    RedisConfig,
    RetentionConfig,
    ServiceConfig,
    TargetConfig,
    UpstreamConfig,
)

__all__ = [
    "Config",
    "ConfigError",
    "DeliveryConfig",
    "FoldConfig",
    "GatewayConfig",
    "IngestConfig",
    "LimitsConfig",
    "Loaded",
    "LogConfig",
    "ModesConfig",
    "RedisConfig",
    "RetentionConfig",
    "ServiceConfig",
    "Setting",
    "TargetConfig",
    "UpstreamConfig",
    "check",
    "load",
    "load_with_sources",
]
