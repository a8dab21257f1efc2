//! Settings of machines and of streaming.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::config::Config;
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{DiskSpeed, HostSettings, InvalidSubnet, NetworkConfig};

/// Image and network of all computers, whatever their engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Container {
    /// Folder of a guest image (with `rootfs` in it).
    pub image: PathBuf,
    /// Whether computers can reach other networks.
    pub network: bool,
    /// Private range of the computers' addresses.
    pub subnet: String,
    /// Whether computers may reach private networks outside the host.
    pub allow_private_egress: bool,
}

/// Snapshots of booted desktops.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BootSnapshotSettings {
    /// Most snapshots, one for each size of computer; those that were used last stay. 0: every computer boots.
    pub keep: u32,
}

/// Streaming.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Streaming {
    /// Whether RTMP servers may have addresses that are not public: private, loopback, link-local and
    /// similar. The engine decides whether a computer can reach them (`container.allow_private_egress`).
    pub allow_private: bool,
}

/// Webhooks of templates.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookSettings {
    /// Whether receivers may have addresses that are not public, this host's own included.
    pub allow_private: bool,
}

impl Config {
    /// The settings that every engine has.
    ///
    /// # Errors
    /// `Internal`, with the reason, when the subnet is invalid, there is no user `host.user`, or the path of this
    /// program cannot be determined.
    pub(super) fn host_settings(&self) -> Result<HostSettings> {
        let agent = std::env::current_exe()
            .map_err(|error| Error::failed(format!("cannot determine the path of this program: {error}")))?;
        Ok(HostSettings {
            network: NetworkConfig {
                enabled: self.container.network,
                subnet: self
                    .container
                    .subnet
                    .parse()
                    .map_err(|error: InvalidSubnet| Error::failed(error.to_string()))?,
                allow_private_egress: self.container.allow_private_egress,
                client: self.host.is_used().then(|| self.host.client()).transpose()?,
                ..NetworkConfig::default()
            },
            disk_speed: DiskSpeed {
                mb_per_second: self.limits.disk_mb_per_second,
                ops_per_second: self.limits.disk_ops_per_second,
            },
            disk_overcommit: self.limits.disk_overcommit,
            encrypts_machines: self.encryption.computers,
            ..HostSettings::new(self.machines_dir(), &self.container.image, agent)
        })
    }
}

impl Default for BootSnapshotSettings {
    /// A handful of sizes is what one installation uses; each snapshot takes 100 to 400 MB of disk.
    fn default() -> Self {
        Self { keep: 4 }
    }
}

impl Default for Container {
    fn default() -> Self {
        Self {
            image: PathBuf::from("/var/cache/hotdesk/images/full"),
            network: true,
            subnet: "10.213.0.0/16".to_owned(),
            allow_private_egress: false,
        }
    }
}
