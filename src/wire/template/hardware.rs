//! Hardware of a template.

use hotdesk_domain::computer::MAX_DISK_GB;
use hotdesk_domain::computer::resize::FASTEST_MBPS;
use hotdesk_domain::computer::template::hardware::{self, MAX_AUTO_STOP_MINUTES, RAM_GB};
use schemars::JsonSchema;
use serde::Serialize;

use super::choice::choices;
use super::is_default;
use super::reader::{FieldReader, ObjectReader};

choices! {
    /// Operating system of a computer.
    #[derive(Default)]
    OperatingSystem {
        /// Debian GNU/Linux.
        #[default]
        Linux = "linux",
    }
}

/// Hardware of a computer that is launched from the template. What is absent is the default of the service; the plan
/// caps all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateHardware {
    /// Operating system.
    #[serde(default)]
    pub os: OperatingSystem,
    /// vCPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = [1, 2, 4, 8, 16]))]
    pub cpu: Option<u64>,
    /// RAM in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 4, max = 64))]
    pub ram_gb: Option<u64>,
    /// Disk in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub disk_gb: Option<u64>,
    /// Size of the screen, such as `1280x720x24`. The depth is 24 without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^\d{2,4}x\d{2,4}(x(16|24|32))?$"))]
    pub resolution: Option<String>,
    /// Minutes without use after which the computer stops; 0 means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1440))]
    pub auto_stop_minutes: Option<u64>,
    /// Whether the template needs sound. Every computer has a virtual speaker; on an imported image the build makes sure of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub audio: bool,
    /// Bandwidth in each direction, in Mbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub bandwidth_mbps: Option<u64>,
}

/// Reads `hardware`.
pub(super) fn read(field: &FieldReader<'_>) -> Option<TemplateHardware> {
    field.object(|object| {
        read_unsupported(object);
        Some(TemplateHardware {
            os: object.read("os", FieldReader::choice).unwrap_or_default(),
            cpu: object.read("cpu", cpu),
            ram_gb: object.read("ram_gb", ram_gb),
            disk_gb: object.read("disk_gb", |disk| disk.whole(1, u64::from(MAX_DISK_GB))),
            resolution: object.read("resolution", resolution),
            auto_stop_minutes: object
                .read("auto_stop_minutes", |minutes| minutes.whole(0, MAX_AUTO_STOP_MINUTES)),
            audio: object.read("audio", FieldReader::flag).unwrap_or_default(),
            bandwidth_mbps: object.read("bandwidth_mbps", |mbps| mbps.whole(1, u64::from(FASTEST_MBPS))),
        })
    })
}

/// Reads the fields that ask for what hotdesk has none of. Values that ask for nothing, such as `gpu: none`, are left
/// out of the normalised document.
fn read_unsupported(object: &ObjectReader<'_>) {
    object.read("gpu", |gpu| gpu.plain(hardware::gpu));
    object.read("gpu_count", |count| count.accept(hardware::gpu_count(count.whole(0, u64::MAX)?)));
    object.read("region", |region| region.plain(hardware::region));
}

/// Reads a number of vCPUs.
pub(super) fn cpu(field: &FieldReader<'_>) -> Option<u64> {
    field.accept(hardware::cpu(field.whole(0, u64::MAX)?))
}

fn ram_gb(field: &FieldReader<'_>) -> Option<u64> {
    let (least, most) = RAM_GB;
    field.whole(least, most)
}

/// Reads RAM as a number of GB, or as a text such as `4gb`.
pub(super) fn ram(field: &FieldReader<'_>) -> Option<u64> {
    if field.is_number() {
        return ram_gb(field);
    }
    field.plain(hardware::ram)
}

/// Reads a resolution.
pub(super) fn resolution(field: &FieldReader<'_>) -> Option<String> {
    field.plain(hardware::resolution)
}
