//! Resource limits of an account and of one computer (docs/api/limits.md).

use crate::computer::Hardware;
use crate::error::{Error, Result};
use crate::error_code::ErrorCode;
use crate::plural::plural;

/// Resource limits that an account's plan gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Number of computers of the account.
    pub computers: u32,
    /// vCPUs of one computer.
    pub cpu: u32,
    /// GB of RAM of one computer.
    pub ram_gb: u32,
    /// GB of RAM that a resize can reach: the boot-memory ceiling of the host.
    pub resize_ram_gb: u32,
    /// GB of RAM of all computers of the account.
    pub account_ram_gb: u32,
    /// GB of disk of one computer.
    pub disk_gb: u32,
    /// GB of disk of all computers of the account, with their snapshots.
    pub account_disk_gb: u32,
    /// Bandwidth of one computer in each direction, in Mbit/s; 0 means no limit.
    pub bandwidth_mbps: u32,
    /// Number of snapshots of one computer.
    pub snapshots: u32,
}

/// Resources that the computers of an account use, running or not. A computer that is being resized counts
/// with the larger of its two sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// Number of computers.
    pub computers: u32,
    /// Their RAM, in GB.
    pub ram_gb: u32,
    /// Their disks and snapshots, in GB.
    pub disk_gb: u32,
}

impl Allowance {
    /// Checks whether an account that uses `used` may create one more computer of size `wanted`.
    ///
    /// # Errors
    /// `Forbidden` with the code `DESKTOP_LIMIT`, `PER_COMPUTER_CPU_CAP`, `PER_COMPUTER_RAM_CAP`, `RAM_ADDON`
    /// or `DISK_QUOTA_EXCEEDED`.
    pub fn admit(&self, wanted: &Hardware, used: &ResourceUse) -> Result<()> {
        if used.computers >= self.computers {
            let (limit, held) = (self.computers, used.computers);
            let allowed = plural(limit, "computer");
            return Err(Error::forbidden(format!("This account may have {allowed} and has {held}"))
                .code(ErrorCode::DesktopLimit)
                .number("max_computers", i64::from(limit)));
        }
        self.check_cpu(wanted.cpu)?;
        self.check_ram(wanted.ram_gb, used)?;
        let (disk, max) = (wanted.disk_gb, self.max_disk_gb(used));
        if disk > max {
            return Err(Error::forbidden(format!("disk_size_gb {disk} exceeds the limit of {max}"))
                .code(ErrorCode::DiskQuotaExceeded)
                .number("max_disk_gb", i64::from(max)));
        }
        Ok(())
    }

    /// Checks the number of vCPUs of one computer.
    ///
    /// # Errors
    /// `Forbidden` with the code `PER_COMPUTER_CPU_CAP`.
    pub fn check_cpu(&self, cpu: f64) -> Result<()> {
        if cpu <= f64::from(self.cpu) {
            return Ok(());
        }
        let max = self.cpu;
        Err(Error::forbidden(format!("{cpu} vCPUs exceed the {max} that one computer may have"))
            .code(ErrorCode::PerComputerCpuCap)
            .number("max_cpu", i64::from(max)))
    }

    /// Checks the RAM of one computer, in GB, when the other computers of the account use `others`.
    ///
    /// # Errors
    /// `Forbidden` with the code `PER_COMPUTER_RAM_CAP` or `RAM_ADDON`.
    pub fn check_ram(&self, ram_gb: u32, others: &ResourceUse) -> Result<()> {
        self.check_ram_of_one(ram_gb)?;
        let left = self.ram_left(others);
        if ram_gb > left {
            let text = format!("{ram_gb} GB of RAM exceed the {left} that the account has left");
            return Err(Error::forbidden(text)
                .code(ErrorCode::RamAddon)
                .number("ram_left_gb", i64::from(left)));
        }
        Ok(())
    }

    fn check_ram_of_one(&self, ram_gb: u32) -> Result<()> {
        let max = self.ram_gb;
        if ram_gb <= max {
            return Ok(());
        }
        Err(Error::forbidden(format!("{ram_gb} GB of RAM exceed the {max} of one computer"))
            .code(ErrorCode::PerComputerRamCap)
            .number("max_ram_gb", i64::from(max)))
    }

    /// Checks the size of a computer that was created under another plan. Limits of the whole account are not
    /// checked.
    ///
    /// # Errors
    /// `Forbidden` with the code `PER_COMPUTER_CPU_CAP`, `PER_COMPUTER_RAM_CAP`, `DISK_QUOTA_EXCEEDED`, or
    /// `PLAN_LIMIT` for bandwidth.
    pub fn check_one(&self, size: &Hardware) -> Result<()> {
        self.check_cpu(size.cpu)?;
        self.check_ram_of_one(size.ram_gb)?;
        if size.disk_gb > self.disk_gb {
            let (disk, max) = (size.disk_gb, self.disk_gb);
            return Err(Error::forbidden(format!("{disk} GB of disk exceed the {max} of one computer"))
                .code(ErrorCode::DiskQuotaExceeded)
                .number("max_disk_gb", i64::from(max)));
        }
        // 0 means no limit, in the plan and in the size.
        let (mbps, max) = (size.bandwidth_mbps, self.bandwidth_mbps);
        if max == 0 || (1..=max).contains(&mbps) {
            return Ok(());
        }
        let has = if mbps == 0 { "without a bound".to_owned() } else { format!("of {mbps} Mbit/s") };
        Err(Error::forbidden(format!("a bandwidth {has} exceeds the {max} Mbit/s of one computer"))
            .code(ErrorCode::PlanLimit)
            .number("max_bandwidth_mbps", i64::from(max)))
    }

    /// Describes the first resource of `used` that exceeds its limit, for people; `None` when nothing does.
    pub fn exceeded(&self, used: &ResourceUse) -> Option<String> {
        let over = |held: u32, most: u32, what: &str| {
            let are = if most == 1 { "is" } else { "are" };
            (held > most).then(|| format!("{held} {what} where {most} {are} left"))
        };
        // One computer can exceed the limit only if the limit is 0.
        let computers = if used.computers == 1 { "computer" } else { "computers" };
        over(used.computers, self.computers, computers)
            .or_else(|| over(used.ram_gb, self.account_ram_gb, "GB of RAM"))
            .or_else(|| over(used.disk_gb, self.account_disk_gb, "GB of disk"))
    }

    /// Returns the GB of RAM that the account has left when its other computers use `others`.
    pub fn ram_left(&self, others: &ResourceUse) -> u32 {
        self.account_ram_gb.saturating_sub(others.ram_gb)
    }

    /// Returns the largest disk of one computer, in GB, when the other computers of the account use `others`.
    pub fn max_disk_gb(&self, others: &ResourceUse) -> u32 {
        self.disk_gb.min(self.account_disk_gb.saturating_sub(others.disk_gb))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desktop::resolution::Resolution;

    #[test]
    fn each_limit_is_enforced_exactly() {
        let allowed = Allowance {
            computers: 3,
            cpu: 4,
            ram_gb: 16,
            resize_ram_gb: 16,
            account_ram_gb: 24,
            disk_gb: 100,
            account_disk_gb: 150,
            bandwidth_mbps: 0,
            snapshots: 10,
        };
        let used = |computers, ram_gb, disk_gb| ResourceUse { computers, ram_gb, disk_gb };
        let size = |cpu, ram_gb, disk_gb| Hardware {
            cpu,
            ram_gb,
            disk_gb,
            resolution: Resolution::default(),
            bandwidth_mbps: 0,
        };
        for (wanted, held, code) in [
            (size(4.0, 16, 100), used(2, 8, 50), None),
            (size(0.5, 4, 1), used(3, 0, 0), Some(ErrorCode::DesktopLimit)),
            (size(8.0, 4, 1), used(0, 0, 0), Some(ErrorCode::PerComputerCpuCap)),
            (size(1.0, 32, 1), used(0, 0, 0), Some(ErrorCode::PerComputerRamCap)),
            (size(1.0, 16, 1), used(1, 9, 0), Some(ErrorCode::RamAddon)),
            (size(1.0, 4, 1), used(1, 99, 0), Some(ErrorCode::RamAddon)),
            (size(1.0, 4, 101), used(0, 0, 0), Some(ErrorCode::DiskQuotaExceeded)),
            (size(1.0, 4, 100), used(1, 4, 51), Some(ErrorCode::DiskQuotaExceeded)),
        ] {
            let got = allowed.admit(&wanted, &held).err().and_then(|error| error.code);
            assert_eq!(got, code, "{wanted:?} beside {held:?}");
        }
        // One that there is already, whatever the account holds.
        let one = |size: Hardware, bandwidth_mbps, bound| {
            let allowed = Allowance { bandwidth_mbps: bound, ..allowed };
            allowed.check_one(&Hardware { bandwidth_mbps, ..size }).err().and_then(|error| error.code)
        };
        for (held, mbps, bound, code) in [
            (size(4.0, 16, 100), 0, 0, None),
            (size(4.0, 16, 100), 900, 0, None),
            (size(4.0, 16, 100), 100, 100, None),
            (size(4.0, 16, 100), 101, 100, Some(ErrorCode::PlanLimit)),
            (size(4.0, 16, 100), 0, 100, Some(ErrorCode::PlanLimit)),
            (size(8.0, 4, 1), 0, 0, Some(ErrorCode::PerComputerCpuCap)),
            (size(1.0, 17, 1), 0, 0, Some(ErrorCode::PerComputerRamCap)),
            (size(1.0, 4, 101), 0, 0, Some(ErrorCode::DiskQuotaExceeded)),
        ] {
            assert_eq!(one(held, mbps, bound), code, "{held:?} with {mbps} of {bound}");
        }
    }
}
