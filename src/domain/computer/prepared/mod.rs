//! Desktops that are booted before somebody asks for them: rules for boot snapshots and for the pool.

use crate::computer::Hardware;
use crate::computer::isolation::Isolation;
use hotdesk_base::ids::LayerId;

pub mod boot_snapshot;
pub mod pool;
pub mod services;

use services::ServiceStart;

/// Isolation, hardware and layers of a desktop, and whether services run on it.
#[derive(Clone, Debug, PartialEq)]
pub struct DesktopSpec {
    /// The kernel behind its programs.
    pub isolation: Isolation,
    /// Its hardware. The bandwidth is set when a computer begins from it.
    pub hardware: Hardware,
    /// Read-only layers below its disk, the lowest first.
    pub layers: Vec<LayerId>,
    /// Whether the services of its template run before a computer begins from it.
    pub services: ServiceStart,
}

/// Text that identifies a desktop except for its bandwidth, in the store and in the log. Memory continues
/// only in a machine with the same, and services that start at a launch begin only from memory without them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DesktopSize(String);

impl DesktopSize {
    /// Returns the size that the store has as this text.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&DesktopSpec> for DesktopSize {
    fn from(DesktopSpec { isolation, hardware, layers, services }: &DesktopSpec) -> Self {
        let Hardware { cpu, ram_gb, disk_gb, resolution, bandwidth_mbps: _ } = hardware;
        let isolation = isolation.name();
        let mut text = format!("{isolation}, {cpu} vCPU, {ram_gb} GB RAM, {disk_gb} GB disk, {resolution}");
        for layer in layers {
            text.push_str(&format!(", layer {layer}"));
        }
        match services {
            ServiceStart::AtLaunch => {}
            ServiceStart::BeforeLaunch => text.push_str(", services run"),
        }
        Self(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_differ_by_all_but_the_bandwidth() {
        let hardware = Hardware {
            cpu: 0.5,
            ram_gb: 4,
            disk_gb: 8,
            resolution: "1280x720x24".parse().unwrap(),
            bandwidth_mbps: 0,
        };
        let services = ServiceStart::AtLaunch;
        let spec =
            |hardware| DesktopSpec { isolation: Isolation::Vm, hardware, layers: Vec::new(), services };
        let size = DesktopSize::from(&spec(hardware));
        assert_eq!(size.as_str(), "vm, 0.5 vCPU, 4 GB RAM, 8 GB disk, 1280x720x24");
        assert_eq!(size, DesktopSize::from(&spec(Hardware { bandwidth_mbps: 5, ..hardware })));
        for other in [
            Hardware { cpu: 1.0, ..hardware },
            Hardware { ram_gb: 8, ..hardware },
            Hardware { disk_gb: 9, ..hardware },
            Hardware { resolution: "1024x768x24".parse().unwrap(), ..hardware },
        ] {
            assert_ne!(size, DesktopSize::from(&spec(other)), "{other:?}");
        }
        assert_ne!(size, DesktopSize::from(&DesktopSpec { isolation: Isolation::Sandbox, ..spec(hardware) }));
        let running = DesktopSpec { services: ServiceStart::BeforeLaunch, ..spec(hardware) };
        assert_eq!(
            DesktopSize::from(&running).as_str(),
            "vm, 0.5 vCPU, 4 GB RAM, 8 GB disk, 1280x720x24, services run"
        );
        let layers = vec![LayerId::random(), LayerId::random()];
        let reversed = layers.iter().rev().copied().collect();
        let [one, two] =
            [layers, reversed].map(|layers| DesktopSize::from(&DesktopSpec { layers, ..spec(hardware) }));
        assert!(size != one && one != two, "{one:?} {two:?}");
    }
}
