//! Arguments of calls, not yet checked.

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::{Boot, FileKey, MachineSpec};
use hotdesk_base::secret::Secret;

/// A [`MachineSpec`], not yet checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::remote) struct SpecText {
    pub(in crate::remote) id: Uuid,
    pub(in crate::remote) isolation: String,
    pub(in crate::remote) cpu: f64,
    pub(in crate::remote) memory_bytes: u64,
    pub(in crate::remote) disk_bytes: u64,
    pub(in crate::remote) bandwidth_mbps: u32,
    pub(in crate::remote) layers: Vec<Uuid>,
    pub(in crate::remote) egress: Option<String>,
}

impl From<&MachineSpec> for SpecText {
    fn from(spec: &MachineSpec) -> Self {
        let MachineSpec { id, isolation, cpu, memory_bytes, disk_bytes, bandwidth_mbps, .. } = *spec;
        let isolation = isolation.name().to_owned();
        let layers = spec.layers.iter().map(|layer| layer.0).collect();
        let egress = spec.egress.as_ref().map(ToString::to_string);
        Self { id: id.0, isolation, cpu, memory_bytes, disk_bytes, bandwidth_mbps, layers, egress }
    }
}

/// A [`Boot`], not yet checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::remote) struct BootText {
    pub(in crate::remote) generation: u64,
    #[serde(serialize_with = "reveal")]
    pub(in crate::remote) token: Secret,
    pub(in crate::remote) resolution: String,
}

impl From<&Boot> for BootText {
    fn from(boot: &Boot) -> Self {
        let Boot { generation, token, resolution } = boot;
        Self { generation: *generation, token: token.clone(), resolution: resolution.to_string() }
    }
}

fn reveal<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

/// A [`FileKey`], not yet checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::remote) struct KeyText(#[serde(serialize_with = "reveal")] pub(in crate::remote) Secret);

impl From<&FileKey> for KeyText {
    fn from(key: &FileKey) -> Self {
        Self(key.digits().clone())
    }
}
