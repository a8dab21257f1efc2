//! Rules for a resize: ceilings and the target size (docs/lifecycle.md#resize).

use crate::computer::allowance::{Allowance, ResourceUse};
use crate::computer::{CPU_CHOICES, Hardware, RAM_CHOICES, choose};
use crate::error::{Error, Result};

/// Highest bandwidth cap where the plan has no limit, in Mbit/s: the fastest network adapters in common use.
pub const FASTEST_MBPS: u32 = 100_000;
/// RAM sizes up to this one, in GB, are choices of every resize; a larger one only where the host's
/// boot-memory ceiling permits it (docs/lifecycle.md#resize).
const COMMON_RAM_GB: u32 = 32;
/// MB in a GB, for `mem_mb`.
const MB_PER_GB: f64 = 1024.0;

/// A dimension that a resize can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// vCPUs.
    Vcpus,
    /// RAM.
    MemMb,
    /// Disk.
    DiskGb,
    /// The bandwidth cap.
    BandwidthMbps,
}

impl Dimension {
    /// Every dimension.
    pub const ALL: [Self; 4] = [Self::Vcpus, Self::MemMb, Self::DiskGb, Self::BandwidthMbps];

    /// Returns the name in the `results` of the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vcpus => "vcpus",
            Self::MemMb => "mem_mb",
            Self::DiskGb => "disk_gb",
            Self::BandwidthMbps => "bandwidth_mbps",
        }
    }

    /// Returns the value of this dimension, in the unit of its name.
    pub fn of(self, hardware: &Hardware) -> f64 {
        match self {
            Self::Vcpus => hardware.cpu,
            Self::MemMb => f64::from(hardware.ram_gb) * MB_PER_GB,
            Self::DiskGb => f64::from(hardware.disk_gb),
            Self::BandwidthMbps => f64::from(hardware.bandwidth_mbps),
        }
    }

    /// Copies this dimension from `from` to `into`.
    pub fn take(self, into: &mut Hardware, from: &Hardware) {
        match self {
            Self::Vcpus => into.cpu = from.cpu,
            Self::MemMb => into.ram_gb = from.ram_gb,
            Self::DiskGb => into.disk_gb = from.disk_gb,
            Self::BandwidthMbps => into.bandwidth_mbps = from.bandwidth_mbps,
        }
    }
}

/// Fields of a resize request; `None` leaves the dimension unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResizeRequest {
    /// `vcpus`: number of vCPUs.
    pub vcpus: Option<f64>,
    /// `mem_gb`, in GB.
    pub mem_gb: Option<f64>,
    /// `disk_size_gb`, in GB.
    pub disk_size_gb: Option<f64>,
    /// `bandwidth_limit_mbps`, in Mbit/s; 0 also leaves it unchanged.
    pub bandwidth_limit_mbps: Option<f64>,
}

impl ResizeRequest {
    /// Whether the request has no dimension.
    pub fn is_empty(&self) -> bool {
        [self.vcpus, self.mem_gb, self.disk_size_gb, self.bandwidth_limit_mbps].iter().all(Option::is_none)
    }
}

/// Largest sizes to which a computer can be resized now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Number of vCPUs.
    pub cpu: f64,
    /// RAM, in GB.
    pub ram_gb: u32,
    /// Disk, in GB.
    pub disk_gb: u32,
    /// Bandwidth, in Mbit/s.
    pub bandwidth_mbps: u32,
}

/// Returns the ceilings of a computer when the other computers of the account use `others`. The current size
/// is always permitted.
pub fn ceilings(current: &Hardware, allowance: &Allowance, others: &ResourceUse) -> Ceilings {
    let largest = |choices: &[f64], most: f64| {
        choices.iter().copied().filter(|choice| *choice <= most).fold(0.0, f64::max)
    };
    let ram = allowance.resize_ram_gb.min(allowance.ram_gb).min(allowance.ram_left(others));
    Ceilings {
        cpu: largest(&CPU_CHOICES, f64::from(allowance.cpu)).max(current.cpu),
        // Exact: every choice of RAM_CHOICES is a small whole number.
        ram_gb: (largest(&RAM_CHOICES, f64::from(ram)) as u32).max(current.ram_gb),
        disk_gb: allowance.max_disk_gb(others).max(current.disk_gb),
        bandwidth_mbps: if allowance.bandwidth_mbps == 0 { FASTEST_MBPS } else { allowance.bandwidth_mbps },
    }
}

/// Returns the target size. A dimension that is requested at its current value is not checked against the
/// limits.
///
/// # Errors
/// `Invalid` when a value is out of range; the message names the field, and for a disk the error has
/// `max_disk_gb`. After that check, `Forbidden` above the account's limits ([`Allowance::check_cpu`],
/// [`Allowance::check_ram`]).
pub fn plan(
    current: &Hardware,
    wish: &ResizeRequest,
    allowance: &Allowance,
    others: &ResourceUse,
) -> Result<Hardware> {
    let most = ceilings(current, allowance, others);
    let mut target = *current;
    if let Some(vcpus) = wish.vcpus.filter(|vcpus| *vcpus != current.cpu) {
        target.cpu = choose("vcpus", vcpus, &CPU_CHOICES)?;
    }
    if let Some(mem_gb) = wish.mem_gb.filter(|mem_gb| *mem_gb != f64::from(current.ram_gb)) {
        let reached = f64::from(allowance.resize_ram_gb.max(COMMON_RAM_GB));
        let choices: Vec<f64> = RAM_CHOICES.into_iter().filter(|choice| *choice <= reached).collect();
        target.ram_gb = choose("mem_gb", mem_gb, &choices)? as u32;
    }
    if let Some(disk) = wish.disk_size_gb {
        target.disk_gb = plan_disk(disk, current.disk_gb, most.disk_gb)?;
    }
    if let Some(mbps) = wish.bandwidth_limit_mbps {
        let max = most.bandwidth_mbps;
        if mbps.fract() != 0.0 || !(0.0..=f64::from(max)).contains(&mbps) {
            return Err(Error::invalid(format!("bandwidth_limit_mbps must be a whole number, 0 to {max}"))
                .number("max_bandwidth_mbps", i64::from(max)));
        }
        // docs/lifecycle.md#resize: 0 is accepted and leaves the cap unchanged.
        target.bandwidth_mbps = if mbps == 0.0 { current.bandwidth_mbps } else { mbps as u32 };
    }
    if target.cpu != current.cpu {
        allowance.check_cpu(target.cpu)?;
    }
    if target.ram_gb != current.ram_gb {
        let ram_gb = allowance.ram_gb.min(allowance.resize_ram_gb);
        Allowance { ram_gb, ..*allowance }.check_ram(target.ram_gb, others)?;
    }
    Ok(target)
}

fn plan_disk(wanted: f64, current: u32, max: u32) -> Result<u32> {
    let refused = |text: String| Err(Error::invalid(text).number("max_disk_gb", i64::from(max)));
    if wanted.fract() != 0.0 || wanted < 1.0 {
        return refused("disk_size_gb must be a whole number of at least 1".to_owned());
    }
    if wanted < f64::from(current) {
        return refused(format!("disk_size_gb cannot shrink: it is {current}"));
    }
    if wanted > f64::from(max) {
        return refused(format!("disk_size_gb exceeds the limit of {max}"));
    }
    Ok(wanted as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desktop::resolution::Resolution;
    use crate::error::{Field, Kind};
    use crate::error_code::ErrorCode;

    const ALLOWED: Allowance = Allowance {
        computers: 9,
        cpu: 8,
        ram_gb: 16,
        resize_ram_gb: 32,
        account_ram_gb: 40,
        disk_gb: 100,
        account_disk_gb: 150,
        bandwidth_mbps: 500,
        snapshots: 10,
    };
    const OTHERS: ResourceUse = ResourceUse { computers: 2, ram_gb: 28, disk_gb: 90 };

    fn current() -> Hardware {
        Hardware { cpu: 2.0, ram_gb: 4, disk_gb: 20, resolution: Resolution::default(), bandwidth_mbps: 100 }
    }

    fn wish(name: &str, value: f64) -> ResizeRequest {
        let value = Some(value);
        match name {
            "vcpus" => ResizeRequest { vcpus: value, ..ResizeRequest::default() },
            "mem_gb" => ResizeRequest { mem_gb: value, ..ResizeRequest::default() },
            "disk_size_gb" => ResizeRequest { disk_size_gb: value, ..ResizeRequest::default() },
            "bandwidth_limit_mbps" => {
                ResizeRequest { bandwidth_limit_mbps: value, ..ResizeRequest::default() }
            }
            other => panic!("no field {other}"),
        }
    }

    #[test]
    fn only_values_in_range_are_accepted() {
        let (bad, far) = (Some(Kind::Invalid), Some(Kind::Forbidden));
        for (field, value, refused) in [
            ("vcpus", 0.5, None),
            ("vcpus", 8.0, None),
            ("vcpus", 16.0, far),
            ("vcpus", 0.0, bad),
            ("vcpus", 3.0, bad),
            ("vcpus", 32.0, bad),
            ("vcpus", -1.0, bad),
            ("vcpus", f64::NAN, bad),
            ("mem_gb", 8.0, None),
            ("mem_gb", 16.0, far),
            ("mem_gb", 32.0, far),
            ("mem_gb", 64.0, bad),
            ("mem_gb", 5.0, bad),
            ("mem_gb", 0.0, bad),
            ("disk_size_gb", 20.0, None),
            ("disk_size_gb", 60.0, None),
            ("disk_size_gb", 61.0, bad),
            ("disk_size_gb", 19.0, bad),
            ("disk_size_gb", 20.5, bad),
            ("disk_size_gb", 0.0, bad),
            ("disk_size_gb", -1.0, bad),
            ("disk_size_gb", f64::INFINITY, bad),
            ("disk_size_gb", f64::NAN, bad),
            ("bandwidth_limit_mbps", 0.0, None),
            ("bandwidth_limit_mbps", 500.0, None),
            ("bandwidth_limit_mbps", 501.0, bad),
            ("bandwidth_limit_mbps", -1.0, bad),
            ("bandwidth_limit_mbps", 1.5, bad),
            ("bandwidth_limit_mbps", f64::NAN, bad),
        ] {
            let got = plan(&current(), &wish(field, value), &ALLOWED, &OTHERS);
            assert_eq!(got.as_ref().err().map(|error| error.kind), refused, "{field} {value}");
            if let Err(error) = got.as_ref().map_err(|error| error.clone()).map(|_| ())
                && error.kind == Kind::Invalid
            {
                assert!(error.message.contains(field), "{}", error.message);
                let told = error.fields.contains(&("max_disk_gb", Field::Number(60)));
                assert_eq!(told, field == "disk_size_gb", "{field} {value}");
            }
        }
    }

    #[test]
    fn a_target_differs_only_in_the_requested_dimensions() {
        let all = ResizeRequest {
            vcpus: Some(4.0),
            mem_gb: Some(8.0),
            disk_size_gb: Some(30.0),
            bandwidth_limit_mbps: Some(50.0),
        };
        let target = plan(&current(), &all, &ALLOWED, &OTHERS).unwrap();
        let values = Dimension::ALL.map(|dimension| dimension.of(&target));
        assert_eq!(values, [4.0, 8192.0, 30.0, 50.0]);
        assert_eq!(plan(&current(), &ResizeRequest::default(), &ALLOWED, &OTHERS).unwrap(), current());
        let still = plan(&current(), &wish("bandwidth_limit_mbps", 0.0), &ALLOWED, &OTHERS).unwrap();
        assert_eq!(still, current());
        let mut partly = current();
        Dimension::DiskGb.take(&mut partly, &target);
        assert_eq!(partly, Hardware { disk_gb: 30, ..current() });
        // A range error goes before a ceiling, whatever the order of the fields.
        let both = ResizeRequest { vcpus: Some(16.0), disk_size_gb: Some(1.0), ..ResizeRequest::default() };
        assert_eq!(plan(&current(), &both, &ALLOWED, &OTHERS).unwrap_err().kind, Kind::Invalid);
        let code = |wish| plan(&current(), &wish, &ALLOWED, &OTHERS).unwrap_err().code;
        assert_eq!(code(wish("vcpus", 16.0)), Some(ErrorCode::PerComputerCpuCap));
        assert_eq!(code(wish("mem_gb", 32.0)), Some(ErrorCode::PerComputerRamCap));
        assert_eq!(code(wish("mem_gb", 16.0)), Some(ErrorCode::RamAddon));
        // A ceiling of the host below the choices is a limit, not another range.
        let low = Allowance { resize_ram_gb: 4, ..ALLOWED };
        let refused = plan(&current(), &wish("mem_gb", 8.0), &low, &OTHERS).unwrap_err();
        assert_eq!((refused.kind, refused.code), (Kind::Forbidden, Some(ErrorCode::PerComputerRamCap)));
        assert!(refused.fields.contains(&("max_ram_gb", Field::Number(4))), "{:?}", refused.fields);
        assert_eq!(plan(&current(), &wish("mem_gb", 64.0), &low, &OTHERS).unwrap_err().kind, Kind::Invalid);
    }

    #[test]
    fn the_current_size_is_permitted_when_limits_fall() {
        let large = Hardware { cpu: 16.0, ram_gb: 64, disk_gb: 200, ..current() };
        let same = ResizeRequest {
            vcpus: Some(16.0),
            mem_gb: Some(64.0),
            disk_size_gb: Some(200.0),
            bandwidth_limit_mbps: None,
        };
        assert_eq!(plan(&large, &same, &ALLOWED, &OTHERS).unwrap(), large);
        let most = ceilings(&large, &ALLOWED, &OTHERS);
        assert_eq!(most, Ceilings { cpu: 16.0, ram_gb: 64, disk_gb: 200, bandwidth_mbps: 500 });
        let most = ceilings(&current(), &ALLOWED, &OTHERS);
        assert_eq!(most, Ceilings { cpu: 8.0, ram_gb: 8, disk_gb: 60, bandwidth_mbps: 500 });
        let unbound = Allowance { bandwidth_mbps: 0, ..ALLOWED };
        assert_eq!(ceilings(&current(), &unbound, &OTHERS).bandwidth_mbps, FASTEST_MBPS);
    }
}
