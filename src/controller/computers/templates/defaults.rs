//! Hardware of a computer that is launched from a template: what the request leaves open, the template decides.

use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::allowance::Allowance;
use hotdesk_domain::computer::prepared::DesktopSpec;
use hotdesk_domain::computer::template::hardware::{bandwidth, default_size};
use hotdesk_domain::computer::{CPU_CHOICES, ComputerRequest, Hardware, RAM_CHOICES, parse_computer_request};
use hotdesk_domain::error::Result;
use hotdesk_store::templates::builds::BuiltLayers;
use hotdesk_store::templates::definitions::StoredTemplate;
use hotdesk_wire::template::TemplateHardware;

use super::parse;
use crate::computers::runner::registry::FleetState;

/// Returns the hardware of a request, with a template's defaults as far as the plan permits them.
///
/// # Errors
/// Those of [`parse_computer_request`].
pub fn hardware(
    wanted: ComputerRequest<'_>,
    defaults: &TemplateHardware,
    allowance: &Allowance,
) -> Result<Hardware> {
    let order = ComputerRequest {
        cpu: wanted.cpu.or(default_size(defaults.cpu, allowance.cpu, &CPU_CHOICES)),
        ram: wanted.ram.or(default_size(defaults.ram_gb, allowance.ram_gb, &RAM_CHOICES)),
        disk_gb: wanted.disk_gb.or(defaults.disk_gb.map(|disk| disk.min(allowance.disk_gb.into()) as f64)),
        resolution: wanted.resolution.or(defaults.resolution.as_deref()),
        ..wanted
    };
    let parsed = parse_computer_request(&order)?;
    let bandwidth_mbps = bandwidth(allowance.bandwidth_mbps, defaults.bandwidth_mbps);
    Ok(Hardware { bandwidth_mbps, ..parsed })
}

/// Asks for the boot snapshot with which most launches of a built template begin: of its own hardware and the default isolation.
///
/// # Errors
/// `Unavailable` or `Internal` when the store fails.
pub(super) async fn want_boot_snapshot(
    fleet: &FleetState,
    plans: &Plans,
    template: &StoredTemplate,
    built: &BuiltLayers,
) -> Result<()> {
    let isolation = fleet.engine.offers().default().isolation;
    if !fleet.makes_boot_snapshots_of(isolation) {
        return Ok(());
    }
    let allowance = plans.terms(&fleet.store.standing(template.account).await?)?.allowance;
    let definition = parse(template).await?;
    let hardware = hardware(ComputerRequest::default(), &definition.hardware, &allowance)?;
    // One with an obstacle starts them at each launch, of which the log of its build tells.
    let services =
        definition.service_start(isolation, definition.egress_policy.is_some()).unwrap_or_default();
    let layers = built.layers.clone();
    fleet.boot_snapshots.want(DesktopSpec { isolation, hardware, layers, services });
    Ok(())
}
