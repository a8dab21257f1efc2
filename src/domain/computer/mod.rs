//! Computers: hardware choices of a create request, and the rules of their lifecycle (docs/api/computers.md).

pub mod allowance;
pub mod clone;
pub mod disk_guard;
pub mod endpoint;
pub mod idle;
pub mod isolation;
pub mod lifecycle;
pub mod machine_identity;
pub mod prepared;
pub mod resize;
pub mod saved_state;
pub mod snapshot;
pub mod status_reason;
pub mod template;

use crate::desktop::resolution::Resolution;
use crate::error::{Error, Result};

/// vCPU counts that a create request accepts. 0.5 is accepted because a resize allows it and old clients send
/// it.
pub const CPU_CHOICES: [f64; 6] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// RAM sizes, in GB, that a create request accepts.
pub const RAM_CHOICES: [f64; 5] = [4.0, 8.0, 16.0, 32.0, 64.0];
/// Default disk size, in GB.
pub const DEFAULT_DISK_GB: f64 = 8.0;
/// Largest disk of a create request, in GB: more than any plan allows.
pub const MAX_DISK_GB: u32 = 1_000_000;
/// Longest auto-stop time: 30 days, in minutes (docs/api/limits.md).
pub const MAX_AUTO_STOP_MINUTES: i64 = 43_200;
/// End of every refusal by an engine that saves no memory: what changes that.
pub const MEMORY_SETTINGS: &str = "To change that, the operator offers the isolation sandbox or vm \
    (engines.offered), and the stopped computer changes to it; see docs/lifecycle.md#suspend";

/// Validated hardware of a computer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Number of vCPUs; a fraction is a share of one core.
    pub cpu: f64,
    /// Memory in GB (1024^3 bytes).
    pub ram_gb: u32,
    /// Disk in GB (1024^3 bytes).
    pub disk_gb: u32,
    /// Boot resolution of the default screen.
    pub resolution: Resolution,
    /// Bandwidth in each direction, in Mbit/s; 0 means no limit.
    pub bandwidth_mbps: u32,
}

/// Fields of a create request; `None` means the default.
#[derive(Clone, Debug, Default)]
pub struct ComputerRequest<'a> {
    /// `cpu`: number of vCPUs.
    pub cpu: Option<f64>,
    /// `ram`, in GB.
    pub ram: Option<f64>,
    /// `disk_size_gb`, in GB.
    pub disk_gb: Option<f64>,
    /// `resolution`: `WIDTHxHEIGHTxDEPTH`.
    pub resolution: Option<&'a str>,
    /// `os`.
    pub os: Option<&'a str>,
    /// `gpu`.
    pub gpu: Option<&'a str>,
    /// `auto_stop_minutes`, in minutes.
    pub auto_stop_minutes: Option<i64>,
}

/// Validates a create request. Limits of the account are checked in [`allowance`]; the bandwidth is 0 (no
/// limit) here.
///
/// # Errors
/// `Invalid` naming the field and its choices.
pub fn parse_computer_request(order: &ComputerRequest<'_>) -> Result<Hardware> {
    match order.os {
        None | Some("linux") => {}
        Some(_) => return Err(Error::invalid("os must be linux")),
    }
    match order.gpu {
        None | Some("none" | "") => {}
        Some(_) => return Err(Error::invalid("gpu must be none: this service has no GPUs")),
    }
    let cpu = choose("cpu", order.cpu.unwrap_or(1.0), &CPU_CHOICES)?;
    let ram = choose("ram", order.ram.unwrap_or(4.0), &RAM_CHOICES)?;
    let disk_gb = parse_disk(order.disk_gb.unwrap_or(DEFAULT_DISK_GB))?;
    check_auto_stop(order.auto_stop_minutes.unwrap_or(0))?;
    let resolution = order.resolution.map_or(Ok(Resolution::default()), str::parse)?;
    // Exact: every choice of RAM_CHOICES is a small whole number.
    Ok(Hardware { cpu, ram_gb: ram as u32, disk_gb, resolution, bandwidth_mbps: 0 })
}

/// Checks an auto-stop time in minutes and returns it; 0 means always on.
///
/// # Errors
/// `Invalid` below 0 or above [`MAX_AUTO_STOP_MINUTES`].
pub fn check_auto_stop(minutes: i64) -> Result<i64> {
    if (0..=MAX_AUTO_STOP_MINUTES).contains(&minutes) {
        return Ok(minutes);
    }
    Err(Error::invalid(format!("auto_stop_minutes must be 0 to {MAX_AUTO_STOP_MINUTES}")))
}

/// Returns the element of `choices` that equals `value`.
///
/// # Errors
/// `Invalid` when there is none; the message names the field and its choices.
pub fn choose(field: &str, value: f64, choices: &[f64]) -> Result<f64> {
    choices.iter().copied().find(|choice| *choice == value).ok_or_else(|| {
        let listed: Vec<String> = choices.iter().map(f64::to_string).collect();
        Error::invalid(format!("{field} must be one of {}", listed.join(", ")))
    })
}

fn parse_disk(value: f64) -> Result<u32> {
    if value.fract() != 0.0 || !(1.0..=f64::from(MAX_DISK_GB)).contains(&value) {
        return Err(Error::invalid(format!("disk_size_gb must be a whole number, 1 to {MAX_DISK_GB}")));
    }
    Ok(value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn defaults_match_the_documentation() {
        let hardware = parse_computer_request(&ComputerRequest::default()).unwrap();
        assert_eq!((hardware.cpu, hardware.ram_gb, hardware.disk_gb), (1.0, 4, 8));
        assert_eq!(hardware.resolution.to_string(), "1280x720x24");
    }

    #[test]
    fn every_range_is_enforced() {
        let kind = |order: ComputerRequest<'_>| {
            parse_computer_request(&order).map(|_| ()).map_err(|error| error.kind)
        };
        for cpu in CPU_CHOICES {
            assert_eq!(kind(ComputerRequest { cpu: Some(cpu), ..ComputerRequest::default() }), Ok(()));
        }
        for ram in RAM_CHOICES {
            assert_eq!(kind(ComputerRequest { ram: Some(ram), ..ComputerRequest::default() }), Ok(()));
        }
        for cpu in [0.0, -1.0, 3.0, 1.5, 32.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                kind(ComputerRequest { cpu: Some(cpu), ..ComputerRequest::default() }),
                Err(Kind::Invalid),
                "{cpu}"
            );
        }
        for ram in [0.0, 1.0, 2.0, 5.0, 128.0, f64::NAN] {
            assert_eq!(
                kind(ComputerRequest { ram: Some(ram), ..ComputerRequest::default() }),
                Err(Kind::Invalid),
                "{ram}"
            );
        }
        for disk in [0.0, -8.0, 8.5, f64::NAN, 1e12] {
            assert_eq!(
                kind(ComputerRequest { disk_gb: Some(disk), ..ComputerRequest::default() }),
                Err(Kind::Invalid),
                "{disk}"
            );
        }
        assert_eq!(kind(ComputerRequest { disk_gb: Some(300.0), ..ComputerRequest::default() }), Ok(()));
        for os in ["windows", "", "Linux"] {
            assert_eq!(
                kind(ComputerRequest { os: Some(os), ..ComputerRequest::default() }),
                Err(Kind::Invalid),
                "{os}"
            );
        }
        assert_eq!(kind(ComputerRequest { gpu: Some("none"), ..ComputerRequest::default() }), Ok(()));
        assert_eq!(
            kind(ComputerRequest { gpu: Some("a10"), ..ComputerRequest::default() }),
            Err(Kind::Invalid)
        );
        for minutes in [-1, 43_201, i64::MIN, i64::MAX] {
            assert_eq!(
                kind(ComputerRequest { auto_stop_minutes: Some(minutes), ..ComputerRequest::default() }),
                Err(Kind::Invalid)
            );
        }
    }
}
