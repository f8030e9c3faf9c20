"""The redaction policy of each tenant's spans: the collector's, or the tenant's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from freezeframe_collector.settings.config import RedactionConfig, parse_tenant_policies
from freezeframe_redaction.policies.policy import BUILT_IN, Policy, load_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    default: Policy
    tenants: Mapping[str, Policy] = field(default_factory=dict[str, Policy])
    """Policies of the tenants that have their own. Spans without a token belong to the tenant ``default``."""

    def of(self, tenant: str) -> Policy:
        """Return the policy of a tenant's spans."""
        return self.tenants.get(tenant or "default", self.default)

    def __iter__(self) -> Iterator[Policy]:
        yield self.default
        yield from self.tenants.values()


def load_policies(config: RedactionConfig) -> Policies:
    """Return the policies that the configuration names.

    Raises:
        ConfigError: one of them cannot be read, or is not a policy.
    """
    tenants = {tenant: load_policy(name) for tenant, name in parse_tenant_policies(config.tenants).items()}
    return Policies(default=load_policy(config.policy), tenants=tenants)


def may_read_prose(config: RedactionConfig) -> bool:
    """Return whether a policy may ask for the model tier: none that comes with freezeframe does."""
    return not {config.policy, *parse_tenant_policies(config.tenants).values()} <= set(BUILT_IN)
