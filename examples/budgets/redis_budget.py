"""The daily budget over Redis, or Valkey: one counter per tenant and day, and a script that checks and adds."""

from daily import Aside, DailyBudget
from redis.asyncio import Redis

KEPT_S = 3 * 24 * 3600
ADD_WITHIN = """
local spent = tonumber(redis.call('GET', KEYS[1]) or '0')
if spent + tonumber(ARGV[1]) > tonumber(ARGV[2]) then return 0 end
redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 1
"""


class RedisBudget(DailyBudget):
    """A daily budget that all processes with the same server share."""

    def __init__(self, limit_usd: float, url: str) -> None:
        super().__init__(limit_usd)
        self.redis = Redis.from_url(url, socket_timeout=5)
        self.script = self.redis.register_script(ADD_WITHIN)

    async def add_within(self, key: Aside, limit_micro_usd: int) -> bool:
        """Run the script, which no other command can interrupt."""
        name = self._key(key.tenant, key.day)
        return bool(await self.script(keys=[name], args=[key.micro_usd, limit_micro_usd, KEPT_S]))

    async def add(self, tenant: str, day: str, micro_usd: int) -> None:
        """Count up or down."""
        await self.redis.incrby(self._key(tenant, day), micro_usd)

    async def spent(self, tenant: str, day: str) -> int:
        """Return the counter."""
        return int(await self.redis.get(self._key(tenant, day)) or 0)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.redis.aclose()

    def _key(self, tenant: str, day: str) -> str:
        return f"interpose:budget:{tenant}:{day}"
