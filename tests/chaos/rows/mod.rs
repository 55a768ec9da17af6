//! The rows. Each is one fault with its bounds; `docs/reliability.md` describes them.

/// Slow, idle and many clients.
mod clients;
/// Tokens, authorities and certificates change.
mod credentials;
/// The API server is down, compacted or restored from a backup.
mod outages;
/// The exporter is killed, stopped, replicated and limited in memory, and its clock jumps.
mod process;
/// A tenant with all permissions in one namespace.
mod tenants;
/// Lists and watches fail in every way.
mod watches;

use crate::{Run, report::Outcome};

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Part of the short form.
    pub(crate) in_quick: bool,
    /// Measures latency or memory, so no other row runs at the same time.
    pub(crate) alone: bool,
    pub(crate) run: fn(&Run) -> Outcome,
}

const fn row(name: &'static str, run: fn(&Run) -> Outcome) -> Row {
    Row { name, in_quick: true, alone: false, run }
}

impl Row {
    const fn long(self) -> Self {
        Self { in_quick: false, ..self }
    }

    const fn alone(self) -> Self {
        Self { alone: true, ..self }
    }
}

pub(crate) static ROWS: [Row; 51] = [
    row("kill_1s", |run| outages::kill(run, 1)),
    row("kill_20s", |run| outages::kill(run, 20)).long(),
    row("kill_90s", |run| outages::kill(run, 90)).long(),
    row("compaction", outages::compaction).long(),
    row("restored_etcd", outages::restored_etcd).long(),
    row("restored_fake", outages::restored_fake),
    row("gone_event", watches::gone_event),
    row("gone_status", watches::gone_status),
    row("half_open_one", watches::half_open_one),
    row("half_open_all", watches::half_open_all).long(),
    row("half_open_real", watches::half_open_real).long(),
    row("list_cut", watches::list_cut),
    row("list_unanswered", watches::list_unanswered),
    row("list_slow_after_gone", watches::list_slow_after_gone),
    row("storm", watches::storm),
    row("storm_real", watches::storm_real).long(),
    row("forbidden", watches::forbidden),
    row("retry_after", watches::retry_after),
    row("connections", watches::connections),
    row("events", watches::events),
    row("token", credentials::token).long(),
    row("authority", credentials::authority).long(),
    row("client_certificate", credentials::client_certificate).long(),
    row("clock", process::clock),
    row("sigkill", process::sigkill),
    row("replicas", process::replicas),
    row("sigterm", process::sigterm).alone(),
    row("memory_limit", process::memory_limit).alone().long(),
    row("tenant_mutes", tenants::mutes),
    row("tenant_locks", tenants::locks),
    row("tenant_forges", tenants::forges),
    row("tenant_crowds", tenants::crowds).alone(),
    row("tenant_starves", tenants::starves).alone(),
    row("tenant_numbers", |run| tenants::memory(run, &[tenants::Input::Numbers])).alone(),
    row("tenant_documents", |run| tenants::memory(run, &[tenants::Input::Documents])).alone().long(),
    row("tenant_state", |run| tenants::memory(run, &[tenants::Input::State])).alone().long(),
    row("tenant_maps", |run| tenants::memory(run, &[tenants::Input::Maps])).alone().long(),
    row("tenant_anchors", |run| tenants::memory(run, &[tenants::Input::Anchors])).alone().long(),
    row("tenant_rules", |run| tenants::memory(run, &[tenants::Input::Rules, tenants::Input::SmallRules]))
        .alone()
        .long(),
    row("tenant_watches", |run| tenants::memory(run, &[tenants::Input::Watches])).alone().long(),
    row("tenant_kinds", |run| tenants::memory(run, &[tenants::Input::Kinds])).alone().long(),
    row("tenant_expanded", |run| tenants::memory(run, &[tenants::Input::Expanded])).alone().long(),
    row("tenant_keys", |run| tenants::memory(run, &[tenants::Input::LongKeys])).alone().long(),
    row("tenant_missing", tenants::missing).alone().long(),
    row("tenant_all", |run| tenants::memory(run, &tenants::Input::ALL)).alone().long(),
    row("slow_resources", clients::slow_resources).alone(),
    row("slow_pages", clients::slow_pages).alone(),
    row("idle_connections", clients::idle_connections).alone().long(),
    row("slowloris", clients::slowloris).alone(),
    row("event_streams", clients::event_streams).alone().long(),
    row("parallel_scrapes", clients::parallel_scrapes).alone(),
];
