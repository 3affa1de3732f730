"""The view in Redis (6.2 or newer) or Valkey: core commands and scripts, no modules."""

from .view import RedisView

__all__ = ["RedisView"]
