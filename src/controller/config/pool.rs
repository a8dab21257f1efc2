//! Settings of the pool of booted computers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use hotdesk_domain::computer::isolation::{check_offered, parse_isolation};
use hotdesk_domain::computer::prepared::DesktopSpec;
use hotdesk_domain::computer::prepared::pool::{PoolLimits, PoolSize};
use hotdesk_domain::computer::prepared::services::ServiceStart;
use hotdesk_domain::computer::{ComputerRequest, parse_computer_request};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::Offers;

/// Pool of booted computers that nobody has claimed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSettings {
    /// GB of RAM that all of them may have.
    pub max_memory_gb: u32,
    /// Minutes after which one is replaced.
    pub max_age_minutes: u32,
    /// Sizes, the most important first; none: no pool.
    pub sizes: Vec<PoolSizeSettings>,
}

/// A size of which the pool has some, by the fields of a create request. Unset values are those of a create without
/// them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolSizeSettings {
    /// How many.
    pub wanted: u32,
    /// Isolation.
    pub isolation: Option<String>,
    /// Number of vCPUs.
    pub cpu: Option<f64>,
    /// RAM in GB.
    pub ram: Option<f64>,
    /// Disk in GB.
    pub disk_size_gb: Option<f64>,
    /// Resolution: `WIDTHxHEIGHTxDEPTH`.
    pub resolution: Option<String>,
}

impl Default for PoolSettings {
    /// 16 GB is four computers of the default size. A day bounds how old the programs of a claimed one are.
    fn default() -> Self {
        Self { max_memory_gb: 16, max_age_minutes: 24 * 60, sizes: Vec::new() }
    }
}

impl PoolSettings {
    /// Returns the sizes of the pool, and its limits.
    ///
    /// # Errors
    /// `Internal`, naming the field, for a size or an isolation that no create request may have.
    pub(crate) fn parse(&self, offers: &Offers) -> Result<(Vec<PoolSize>, PoolLimits)> {
        let size = |settings: &PoolSizeSettings| {
            let request = ComputerRequest {
                cpu: settings.cpu,
                ram: settings.ram,
                disk_gb: settings.disk_size_gb,
                resolution: settings.resolution.as_deref(),
                ..ComputerRequest::default()
            };
            let refused = |error| Error::failed(format!("configuration: pool.sizes: {error}"));
            let hardware = parse_computer_request(&request).map_err(refused)?;
            let isolation =
                settings.isolation.as_deref().map(parse_isolation).transpose().map_err(refused)?;
            let isolation = isolation.unwrap_or(offers.default().isolation);
            let isolation = check_offered(isolation, "isolation", &offers.isolations()).map_err(refused)?;
            Ok(PoolSize {
                spec: DesktopSpec {
                    isolation,
                    hardware,
                    layers: Vec::new(),
                    services: ServiceStart::AtLaunch,
                },
                wanted: settings.wanted,
            })
        };
        let limits = PoolLimits {
            max_memory_gb: self.max_memory_gb,
            max_age: Duration::from_secs(u64::from(self.max_age_minutes) * 60),
        };
        Ok((self.sizes.iter().map(size).collect::<Result<_>>()?, limits))
    }
}
