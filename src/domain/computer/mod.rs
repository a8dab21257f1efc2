//! Which computers can be ordered? The fields of a create and their ranges (interface.md "Computer", wire.md 4.2).

use super::error::{Error, Result};
use super::resolution::Resolution;

/// vCPU counts that a create accepts (wire.md 4.2 adds 0.5 to interface.md's list, since resize allows it and old
/// clients send it).
pub const CPU_CHOICES: [f64; 6] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// RAM sizes in GB that a create accepts.
pub const RAM_CHOICES: [f64; 5] = [4.0, 8.0, 16.0, 32.0, 64.0];
/// Default disk in GB.
pub const DEFAULT_DISK_GB: f64 = 8.0;
/// Longest auto-stop in minutes: 30 days (interface.md "Limits").
pub const MAX_AUTO_STOP_MINUTES: i64 = 43_200;

/// The hardware of a computer, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// vCPUs; a fraction is a share of one core.
    pub cpu: f64,
    /// Memory in GB (1024^3 bytes).
    pub ram_gb: u32,
    /// Disk in GB (1024^3 bytes).
    pub disk_gb: u32,
    /// Boot resolution of the default screen.
    pub resolution: Resolution,
    /// Megabits a second that it may send and receive; 0 is without a bound.
    pub bandwidth_mbps: u32,
}

/// What a client asked for; `None` takes the default.
#[derive(Clone, Debug, Default)]
pub struct Order<'a> {
    /// `cpu`.
    pub cpu: Option<f64>,
    /// `ram`.
    pub ram: Option<f64>,
    /// `disk_size_gb`.
    pub disk_gb: Option<f64>,
    /// `resolution`.
    pub resolution: Option<&'a str>,
    /// `os`.
    pub os: Option<&'a str>,
    /// `gpu`.
    pub gpu: Option<&'a str>,
    /// `auto_stop_minutes`.
    pub auto_stop_minutes: Option<i64>,
}

/// Checks an order; whether the account may have as much is [`super::allowance`]'s matter. The bandwidth has no bound yet.
///
/// # Errors
/// `Invalid` naming the field and its choices.
pub fn parse_order(order: &Order<'_>) -> Result<Hardware> {
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

/// Checks an auto-stop value; 0 means always-on.
///
/// # Errors
/// `Invalid` below 0 or above [`MAX_AUTO_STOP_MINUTES`].
pub fn check_auto_stop(minutes: i64) -> Result<i64> {
    if (0..=MAX_AUTO_STOP_MINUTES).contains(&minutes) {
        return Ok(minutes);
    }
    Err(Error::invalid(format!("auto_stop_minutes must be 0 to {MAX_AUTO_STOP_MINUTES}")))
}

/// The choice that a value is.
///
/// # Errors
/// `Invalid` naming the field and its choices.
pub fn choose(field: &str, value: f64, choices: &[f64]) -> Result<f64> {
    choices.iter().copied().find(|choice| *choice == value).ok_or_else(|| {
        let listed: Vec<String> = choices.iter().map(f64::to_string).collect();
        Error::invalid(format!("{field} must be one of {}", listed.join(", ")))
    })
}

fn parse_disk(value: f64) -> Result<u32> {
    if value.fract() != 0.0 || !(1.0..=1_000_000.0).contains(&value) {
        return Err(Error::invalid("disk_size_gb must be a whole number of at least 1"));
    }
    Ok(value as u32)
}

#[cfg(test)]
mod tests {
    use super::super::error::Kind;
    use super::*;

    #[test]
    fn defaults_are_the_specification_s() {
        let hardware = parse_order(&Order::default()).unwrap();
        assert_eq!((hardware.cpu, hardware.ram_gb, hardware.disk_gb), (1.0, 4, 8));
        assert_eq!(hardware.resolution.to_string(), "1280x720x24");
    }

    #[test]
    fn every_range_is_held() {
        let kind = |order: Order<'_>| parse_order(&order).map(|_| ()).map_err(|error| error.kind);
        for cpu in CPU_CHOICES {
            assert_eq!(kind(Order { cpu: Some(cpu), ..Order::default() }), Ok(()));
        }
        for ram in RAM_CHOICES {
            assert_eq!(kind(Order { ram: Some(ram), ..Order::default() }), Ok(()));
        }
        for cpu in [0.0, -1.0, 3.0, 1.5, 32.0, f64::NAN, f64::INFINITY] {
            assert_eq!(kind(Order { cpu: Some(cpu), ..Order::default() }), Err(Kind::Invalid), "{cpu}");
        }
        for ram in [0.0, 1.0, 2.0, 5.0, 128.0, f64::NAN] {
            assert_eq!(kind(Order { ram: Some(ram), ..Order::default() }), Err(Kind::Invalid), "{ram}");
        }
        for disk in [0.0, -8.0, 8.5, f64::NAN, 1e12] {
            assert_eq!(kind(Order { disk_gb: Some(disk), ..Order::default() }), Err(Kind::Invalid), "{disk}");
        }
        assert_eq!(kind(Order { disk_gb: Some(300.0), ..Order::default() }), Ok(()));
        for os in ["windows", "", "Linux"] {
            assert_eq!(kind(Order { os: Some(os), ..Order::default() }), Err(Kind::Invalid), "{os}");
        }
        assert_eq!(kind(Order { gpu: Some("none"), ..Order::default() }), Ok(()));
        assert_eq!(kind(Order { gpu: Some("a10"), ..Order::default() }), Err(Kind::Invalid));
        for minutes in [-1, 43_201, i64::MIN, i64::MAX] {
            assert_eq!(
                kind(Order { auto_stop_minutes: Some(minutes), ..Order::default() }),
                Err(Kind::Invalid)
            );
        }
    }
}
