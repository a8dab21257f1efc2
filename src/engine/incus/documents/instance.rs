//! Instances as the API of Incus describes them, and the labels by which the engine knows its own.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::Deserialize;

use hotdesk_domain::computer::isolation::Isolation;

/// The agent's executable in an instance without gVisor.
pub(in crate::incus) const AGENT_PROGRAM: &str = "/usr/bin/hotdesk";
/// The same executable in an instance with gVisor, whose launcher it is there.
pub(in crate::incus) const LAUNCHER: &str = "/hotdesk/stage/agent";
/// The root of the guest image in an instance with gVisor.
pub(in crate::incus) const BASE: &str = "/base";
/// The device by which a volume with the guest image is there.
pub(super) const BASE_DEVICE: &str = "base";

/// Label with the id of the state folder of the engine that made an instance.
pub(in crate::incus) const OWNER: &str = "user.hotdesk.owner";
/// Label with the computer's id.
pub(in crate::incus) const COMPUTER: &str = "user.hotdesk.computer";
/// Label that says `1` once an instance is whole, or a volume with a guest image.
pub(in crate::incus) const MADE: &str = "user.hotdesk.made";
/// Label with the generation of the last boot.
pub(in crate::incus) const GENERATION: &str = "user.hotdesk.generation";
/// Label with the computer's IPv4 address.
pub(in crate::incus) const ADDRESS: &str = "user.hotdesk.address";
/// Label with the member to which an instance is being moved.
pub(in crate::incus) const MOVING: &str = "user.hotdesk.moving";
/// Label with the digest of the agent in an instance, once that is another than the image's.
pub(in crate::incus) const AGENT: &str = "user.hotdesk.agent";
/// Label of a replica: the snapshot with its last whole state; empty while there is none.
pub(in crate::incus) const STATE: &str = "user.hotdesk.state";
/// Label of a replica: how many refreshes in a row have failed.
pub(in crate::incus) const FAILED: &str = "user.hotdesk.failed";
/// Label of a replica: the member of the machine at the last refresh or move.
pub(in crate::incus) const FROM: &str = "user.hotdesk.from";
/// Label with the time since when an instance is superseded: its computer began from a replica.
pub(in crate::incus) const FENCED: &str = "user.hotdesk.fenced";
/// Label of an instance whose programs run under gVisor; others have none.
pub(in crate::incus) const ISOLATION: &str = "user.hotdesk.isolation";
/// Label with the generation whose memory is saved on the disk, or was about to be.
pub(in crate::incus) const SAVED: &str = "user.hotdesk.saved";
/// Properties of an image, which Incus copies to the configuration of its instances.
pub(in crate::incus) const IMAGE_ID: &str = "hotdesk.image";
pub(in crate::incus) const IMAGE_AGENT: &str = "hotdesk.agent";
pub(in crate::incus) const IMAGE_BYTES: &str = "hotdesk.bytes";
/// Property with the name of the volumes with the guest image, which instances of the image mount.
pub(in crate::incus) const IMAGE_BASE: &str = "hotdesk.base";
/// Prefix of the property by which a state folder marks an image that it needs; its id follows.
pub(in crate::incus) const IMAGE_OWNER: &str = "hotdesk.owner.";
/// Label with the id of the state folder whose publication made an instance, so that a member fetches an image.
pub(in crate::incus) const PUBLICATION: &str = "user.hotdesk.publication";
/// Key with the fingerprint of the image from which an instance was made, which its copies keep.
const BASE_IMAGE: &str = "volatile.base_image";
/// Key with the last state that Incus noted of an instance.
const LAST_POWER: &str = "volatile.last_state.power";

/// An instance, as the API describes it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(in crate::incus) struct Instance {
    pub(in crate::incus) status: String,
    #[serde(default)]
    pub(in crate::incus) architecture: String,
    /// The cluster member; `none` where there is no cluster.
    #[serde(default)]
    pub(in crate::incus) location: String,
    #[serde(default)]
    pub(in crate::incus) config: BTreeMap<String, String>,
    #[serde(default)]
    pub(in crate::incus) devices: BTreeMap<String, BTreeMap<String, String>>,
}

/// Whether the programs of an instance run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::incus) enum Power {
    Running,
    Stopped,
    /// The server does not know: the member of the instance does not answer. It may run.
    Unknown,
}

impl Instance {
    pub(in crate::incus) fn power(&self) -> Power {
        match self.status.as_str() {
            "Stopped" => Power::Stopped,
            "Running" | "Starting" | "Stopping" | "Aborting" | "Freezing" | "Frozen" | "Thawed" | "Ready" => {
                Power::Running
            }
            _ => Power::Unknown,
        }
    }

    /// Whether Incus has noted the end of an instance that is stopped. Before that, it shows the instance as running once more,
    /// until it has cleaned up after it. After an end of the whole host it notes nothing.
    pub(in crate::incus) fn is_end_noted(&self) -> bool {
        self.label(LAST_POWER) != Some("RUNNING")
    }

    /// Bytes of its root on the pool, as they are configured; `None` when it has no limit.
    pub(in crate::incus) fn root_bytes(&self) -> Option<u64> {
        self.devices.get("root")?.get("size")?.parse().ok()
    }

    /// Bytes of its root that are not for the disk of the computer: the image, and saved memory.
    pub(in crate::incus) fn bytes_besides_disk(&self) -> u64 {
        let memory = self.label("limits.memory").and_then(|text| text.parse().ok()).unwrap_or_default();
        let saved = if self.isolation() == Isolation::Sandbox { memory } else { 0 };
        self.image_bytes().saturating_add(saved)
    }

    /// Whether its creation or copy has finished.
    pub(in crate::incus) fn is_made(&self) -> bool {
        self.label(MADE) == Some("1")
    }

    /// A label that is not empty.
    pub(in crate::incus) fn label(&self, name: &str) -> Option<&str> {
        self.config.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// The member of the cluster that has it; `None` where there is no cluster.
    pub(in crate::incus) fn member(&self) -> Option<&str> {
        Some(self.location.as_str()).filter(|location| !location.is_empty() && *location != "none")
    }

    /// The generation of its last boot.
    pub(in crate::incus) fn generation(&self) -> Option<u64> {
        self.label(GENERATION)?.parse().ok()
    }

    /// The isolation with which it was made, and which it keeps.
    pub(in crate::incus) fn isolation(&self) -> Isolation {
        if self.label(ISOLATION) == Some(Isolation::Sandbox.name()) {
            Isolation::Sandbox
        } else {
            Isolation::Shared
        }
    }

    /// The generation whose memory may be on its disk.
    pub(in crate::incus) fn saved(&self) -> Option<u64> {
        self.label(SAVED)?.parse().ok()
    }

    /// The executable of hotdesk in it.
    pub(in crate::incus) fn program(&self) -> &'static str {
        match self.isolation() {
            Isolation::Sandbox => LAUNCHER,
            Isolation::Shared | Isolation::Vm => AGENT_PROGRAM,
        }
    }

    /// Its address, where it has a network.
    pub(in crate::incus) fn address(&self) -> Option<Ipv4Addr> {
        self.label(ADDRESS)?.parse().ok()
    }

    /// The digest of the agent that it has.
    pub(in crate::incus) fn agent(&self) -> Option<&str> {
        self.label(AGENT).or_else(|| self.config.get(&image_key(IMAGE_AGENT)).map(String::as_str))
    }

    /// The image from which it or its source was made: the fingerprint, and the id of the build.
    pub(in crate::incus) fn origins(&self) -> impl Iterator<Item = &str> {
        let build = self.config.get(&image_key(IMAGE_ID));
        self.label(BASE_IMAGE).into_iter().chain(build.map(String::as_str))
    }

    /// Name of the volume with its guest image, which its member must have. Others have the guest image in their root.
    pub(in crate::incus) fn base(&self) -> Option<&str> {
        self.devices.get(BASE_DEVICE)?.get("source").map(String::as_str)
    }

    /// Bytes of the image below its own files, which its quota includes.
    pub(in crate::incus) fn image_bytes(&self) -> u64 {
        self.config.get(&image_key(IMAGE_BYTES)).and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}

/// The configuration key of an instance that has a property of its image.
fn image_key(property: &str) -> String {
    format!("image.{property}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_without_a_cluster_has_no_member() {
        for (location, expected) in [("m1", Some("m1")), ("none", None), ("", None)] {
            let instance = Instance { location: location.to_owned(), ..Instance::default() };
            assert_eq!(instance.member(), expected, "{location:?}");
        }
    }

    #[test]
    fn an_instance_has_its_guest_image_in_its_root_or_in_a_volume() {
        let own = |devices: serde_json::Value| Instance {
            devices: serde_json::from_value(devices).unwrap(),
            ..Instance::default()
        };
        let root = own(serde_json::json!({"root": {"type": "disk", "path": "/", "pool": "desks"}}));
        assert_eq!(root.base(), None);
        let volume = own(serde_json::json!({"base": {"type": "disk", "source": "hotdesk-base-1"}}));
        assert_eq!(volume.base(), Some("hotdesk-base-1"));
    }

    #[test]
    fn an_instance_is_shared_unless_it_is_labelled() {
        let labelled = |labels: &[(&str, &str)]| Instance {
            config: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Instance::default()
        };
        let shared = labelled(&[(SAVED, "")]);
        assert_eq!((shared.isolation(), shared.saved()), (Isolation::Shared, None));
        let sandbox = labelled(&[(ISOLATION, "sandbox"), (SAVED, "7")]);
        assert_eq!((sandbox.isolation(), sandbox.saved()), (Isolation::Sandbox, Some(7)));
        assert_ne!(shared.program(), sandbox.program());
    }

    #[test]
    fn the_end_of_an_instance_is_noted_after_it_shows() {
        for (noted, is_noted) in [("RUNNING", false), ("STOPPED", true), ("", true)] {
            let config = [(LAST_POWER.to_owned(), noted.to_owned())].into();
            assert_eq!(Instance { config, ..Instance::default() }.is_end_noted(), is_noted, "{noted}");
        }
    }

    #[test]
    fn a_status_says_whether_programs_may_run() {
        for (status, power) in [
            ("Running", Power::Running),
            ("Frozen", Power::Running),
            ("Stopping", Power::Running),
            ("Stopped", Power::Stopped),
            // The member of the instance does not answer.
            ("Error", Power::Unknown),
            ("", Power::Unknown),
        ] {
            assert_eq!(
                Instance { status: status.to_owned(), ..Instance::default() }.power(),
                power,
                "{status}"
            );
        }
    }
}
