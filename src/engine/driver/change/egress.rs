//! Egress policies of machines: change while they run, and upkeep of their name proxies.
//!
//! ```text
//!   end the name proxy --> packet rules of the new policy --> record --> new name proxy
//! ```
//! The policy is in the machine's record, from which a proxy that has ended is started again.

use crate::driver::{GuestDriver, HostContext, lifecycle};
use crate::host::network::{self, name_proxy};
use crate::host::slots;
use crate::state::layout::{Folder, Record};
use crate::state::machine_lock::MachineLock;
use crate::{EngineError, EngineResult, Observation};
use hotdesk_domain::computer::template::network::egress::EgressPolicy;

const STEP: &str = "change the egress policy";

/// [`crate::Engine::set_egress`], under the machine's lock. Blocks.
pub(in crate::driver) fn set<M: GuestDriver>(
    engine: &M,
    folder: &Folder,
    policy: Option<&EgressPolicy>,
) -> EngineResult<()> {
    let runs = match lifecycle::observe(engine, folder.id)? {
        Observation::Absent => return Err(EngineError::Absent),
        Observation::Running { .. } => true,
        Observation::Stopped | Observation::Suspended { .. } => false,
    };
    let record = folder.read_record()?;
    let after = Record { egress: policy.map(ToString::to_string), ..record.clone() };
    if after == record {
        return Ok(());
    }
    let host = engine.host();
    if !runs || !host.settings.network.enabled {
        return folder.write_record(&after);
    }
    let Some(slot) = slots::of_machine(&folder.path)? else {
        return Err(EngineError::failed(STEP, "the machine runs and has no slot"));
    };
    let before = record.egress_policy()?;
    // Without a proxy nothing adds addresses of names that the new policy does not have.
    name_proxy::stop(&folder.name_proxy())?;
    let changed = network::change_policy(&host.settings.network, slot, before.as_ref(), policy);
    if changed.is_err() {
        if let Some(before) = &before {
            start_or_wait(host, folder, slot, before);
        }
        return changed;
    }
    if let Err(error) = folder.write_record(&after) {
        // The rules follow the record, which the next upkeep and the next boot read.
        network::change_policy(&host.settings.network, slot, policy, before.as_ref())?;
        if let Some(before) = &before {
            start_or_wait(host, folder, slot, before);
        }
        return Err(error);
    }
    match policy {
        Some(policy) => start_or_wait(host, folder, slot, policy),
        None => {
            // Its rules are gone, so one that is left permits nothing.
            if let Err(error) = name_proxy::remove(&folder.name_proxy()) {
                tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "could not remove the name proxy of an egress policy that has ended; the next stop does");
            }
        }
    }
    Ok(())
}

/// [`start_proxy`]; when it fails, the next upkeep tries again, and the guest resolves no names until then.
fn start_or_wait(host: &HostContext, folder: &Folder, slot: u16, policy: &EgressPolicy) {
    if let Err(error) = start_proxy(host, folder, slot, policy) {
        tracing::warn!(computer = %folder.id, error = format_args!("{error:#}"), "the computer resolves no names: its egress policy has no name proxy; retried");
    }
}

/// Starts the name proxy of a machine that has a link. Blocks.
pub(crate) fn start_proxy(
    host: &HostContext,
    folder: &Folder,
    slot: u16,
    policy: &EgressPolicy,
) -> EngineResult<()> {
    let settings = &host.settings;
    name_proxy::start(&settings.agent_binary, &folder.name_proxy(), &settings.network, slot, policy)
}

/// Starts the name proxies that have ended while their machines run. Blocks.
pub(in crate::driver) fn revive(host: &HostContext) -> EngineResult<()> {
    // One machine must not keep the others from it.
    let revived = host.state.list()?.into_iter().map(|id| revive_one(host, &host.state.folder(id)));
    revived.fold(Ok(()), Result::and)
}

fn revive_one(host: &HostContext, folder: &Folder) -> EngineResult<()> {
    if !name_proxy::is_missing(&folder.name_proxy())? {
        return Ok(());
    }
    // A locked machine boots, changes or ends.
    let Some(_guard) = MachineLock::try_acquire(folder)? else { return Ok(()) };
    let policy = folder.read_record()?.egress_policy()?;
    if let (Some(policy), Some(slot)) = (policy, slots::of_machine(&folder.path)?) {
        tracing::info!(computer = %folder.id, "a new name proxy begins, because the last one has ended");
        start_or_wait(host, folder, slot, &policy);
    }
    Ok(())
}
