//! Hardware of a definition file, and what hotdesk has none of.

use super::fault::{Fault, FaultCode, RuleResult, quoted};
use crate::desktop::resolution::Resolution;

/// vCPUs that a template may ask for.
pub const CPUS: [u64; 5] = [1, 2, 4, 8, 16];
/// Least and most RAM, in GB.
pub const RAM_GB: (u64, u64) = (4, 64);
/// Longest time until an automatic stop, in minutes: a day. Zero means never.
pub const MAX_AUTO_STOP_MINUTES: u64 = 1440;
/// Graphics processors that a definition file can name.
pub const GPUS: [&str; 8] = ["none", "t4", "l4", "a10", "l40s", "a100-40", "a100-80", "h100"];
/// The region that names no place: the service chooses one.
pub const ANY_REGION: &str = "auto-us";
/// Regions that a definition file can name.
pub const REGIONS: [&str; 4] = [ANY_REGION, "iad", "sjc", "lax"];

/// Checks a number of vCPUs.
///
/// # Errors
/// `InvalidEnum` for a number that is no choice.
pub fn cpu(count: u64) -> RuleResult<u64> {
    if CPUS.contains(&count) {
        return Ok(count);
    }
    Err(Fault::new(FaultCode::InvalidEnum, format!("must be 1, 2, 4, 8 or 16 vCPUs, not {count}")))
}

/// Checks a graphics processor: only `none` can be fulfilled.
///
/// # Errors
/// `Unsupported` for a known one, `InvalidEnum` for an unknown one.
pub fn gpu(name: &str) -> RuleResult<()> {
    match name {
        "none" => Ok(()),
        known if GPUS.contains(&known) => Err(Fault::new(
            FaultCode::Unsupported,
            format!("asks for the GPU {known}, but hotdesk computers have no GPU"),
        )
        .hint("remove the field, or write none")),
        other => Err(Fault::none_of(other, &GPUS)),
    }
}

/// Checks a number of graphics processors: only 0 can be fulfilled.
///
/// # Errors
/// `Unsupported` for any other.
pub fn gpu_count(count: u64) -> RuleResult<()> {
    if count == 0 {
        return Ok(());
    }
    Err(Fault::new(FaultCode::Unsupported, "asks for a GPU, but hotdesk computers have no GPU")
        .hint("remove the field"))
}

/// Checks a region: only [`ANY_REGION`] can be fulfilled, because a controller has one host.
///
/// # Errors
/// `Unsupported` for another known region, `InvalidEnum` for an unknown one.
pub fn region(name: &str) -> RuleResult<()> {
    match name {
        ANY_REGION => Ok(()),
        known if REGIONS.contains(&known) => Err(Fault::new(
            FaultCode::Unsupported,
            format!("asks for the region {known}, but hotdesk has no regions: computers run on its own host"),
        )
        .hint(format!("remove the field, or write {ANY_REGION}"))),
        other => Err(Fault::none_of(other, &REGIONS)),
    }
}

/// Reads an amount of RAM such as `4gb` or `8 GB`; returns it in GB.
///
/// # Errors
/// `InvalidValue` for what is no such text, `OutOfRange` for an amount outside of [`RAM_GB`].
pub fn ram(text: &str) -> RuleResult<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let digits =
        ["gib", "gb", "g"].iter().find_map(|unit| lower.strip_suffix(unit)).unwrap_or(&lower).trim_end();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(Fault::invalid(format!("must be RAM such as 4gb, not {}", quoted(text))));
    }
    let (least, most) = RAM_GB;
    digits.parse().ok().filter(|gb| (least..=most).contains(gb)).ok_or_else(|| {
        Fault::new(FaultCode::OutOfRange, format!("must be from {least}gb to {most}gb, not {}", quoted(text)))
    })
}

/// Reads a resolution; returns it with its depth, which is 24 without one.
///
/// # Errors
/// `InvalidValue` for anything else, with the reason as a hint.
pub fn resolution(text: &str) -> RuleResult<String> {
    match text.parse::<Resolution>() {
        Ok(resolution) => Ok(resolution.to_string()),
        Err(error) => {
            let message = format!("must be WIDTHxHEIGHT or WIDTHxHEIGHTxDEPTH, not {}", quoted(text));
            Err(Fault::invalid(message).hint(error.message))
        }
    }
}

/// The size with which a computer is launched when its create request names none: the smallest of `choices` that is at
/// least the template's, or the largest that the plan permits. `None` when the template names none either.
pub fn default_size(size: Option<u64>, most: u32, choices: &[f64]) -> Option<f64> {
    let size = size? as f64;
    let fits = |choice: &&f64| **choice <= f64::from(most);
    let enough = choices.iter().filter(fits).find(|choice| **choice >= size);
    enough.or_else(|| choices.iter().rfind(fits)).copied().or(Some(size))
}

/// The bandwidth of a launched computer in Mbit/s, from that of its plan and that of its template; 0 is no limit.
pub fn bandwidth(plan: u32, template: Option<u64>) -> u32 {
    let limits = [Some(plan), template.map(|mbps| u32::try_from(mbps).unwrap_or(u32::MAX))];
    limits.into_iter().flatten().filter(|mbps| *mbps > 0).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hotdesk_has_none_of_is_refused_by_name() {
        assert!(gpu("none").is_ok() && gpu_count(0).is_ok() && region("auto-us").is_ok());
        for (checked, code) in [
            (gpu("h100"), FaultCode::Unsupported),
            (gpu("h1000"), FaultCode::InvalidEnum),
            (gpu_count(1), FaultCode::Unsupported),
            (region("iad"), FaultCode::Unsupported),
            (region("mars"), FaultCode::InvalidEnum),
        ] {
            assert_eq!(checked.unwrap_err().code, code);
        }
    }

    #[test]
    fn amounts_are_read_or_refused() {
        for (text, gb) in [("4gb", 4), ("8 GB", 8), ("16GiB", 16), ("4", 4)] {
            assert_eq!(ram(text), Ok(gb), "{text}");
        }
        for bad in ["", "gb", "4mb", "-4gb", "+4", "4.5gb", "3gb", "65", "99999999999999999999999gb"] {
            assert!(ram(bad).is_err(), "{bad}");
        }
        assert!(cpu(2).is_ok() && cpu(3).is_err() && cpu(0).is_err());
        assert_eq!(resolution("1280x800").unwrap(), "1280x800x24");
        for (bad, reason) in [
            ("wide", "1280x720x24"),
            ("20000x20000", "7680"),
            ("7680x7680", "33177600 pixels"),
            ("800x600x8", "16, 24 or 32"),
        ] {
            let hint = resolution(bad).unwrap_err().hint.unwrap_or_default();
            assert!(hint.contains(reason), "{bad}: {hint}");
        }
    }

    #[test]
    fn sizes_of_a_template_are_rounded_up_and_capped_by_the_plan() {
        let choices = [4.0, 8.0, 16.0];
        for (size, most, expected) in [
            (None, 16, None),
            (Some(4), 16, Some(4.0)),
            (Some(5), 16, Some(8.0)),
            (Some(12), 8, Some(8.0)),
            (Some(64), 16, Some(16.0)),
            (Some(64), 100, Some(16.0)),
            // The request is refused with the plan's own text then.
            (Some(6), 2, Some(6.0)),
        ] {
            assert_eq!(default_size(size, most, &choices), expected, "{size:?} {most}");
        }
        for (plan, template, expected) in [
            (0, None, 0),
            (0, Some(5), 5),
            (5, None, 5),
            (5, Some(9), 5),
            (9, Some(5), 5),
            (9, Some(u64::MAX), 9),
        ] {
            assert_eq!(bandwidth(plan, template), expected, "{plan} {template:?}");
        }
    }
}
