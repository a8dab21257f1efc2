//! Messages between a controller and the host helper: one request and one reply on each connection.
//!
//! Raw data follows the text of [`Call::WriteSaved`] and [`Reply::Extents`], see `frames.rs`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::remote::intern::interned;
use crate::{
    Boot, Capabilities, Change, Effect, Endpoint, EngineError, FileKey, MachineSpec, Observation, Offer,
    SavedFile, SavedState, Shortage, Snapshot,
};
use hotdesk_base::ids::ComputerId;
use hotdesk_base::secret::Secret;
use hotdesk_domain::computer::isolation::Isolation;

/// Version of the protocol; helper and controller must have the same one.
pub(super) const VERSION: u32 = 5;

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) version: u32,
    /// The controller's process; see `fence.rs`.
    pub(super) session: Uuid,
    pub(super) call: Call,
}

/// An operation of [`Engine`](crate::Engine) with its arguments, not yet checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Call {
    /// Asks for the offers.
    Describe {},
    ImageId {},
    BootInputs {
        isolation: String,
    },
    AddKeys {
        keys: Vec<KeyText>,
    },
    Encrypt {
        id: Uuid,
        key: KeyText,
    },
    RemoveUnusedKeys {},
    Create {
        spec: SpecText,
    },
    Start {
        spec: SpecText,
        boot: BootText,
    },
    Stop {
        id: Uuid,
        grace_ms: u64,
    },
    Destroy {
        id: Uuid,
    },
    Observe {
        id: Uuid,
    },
    CheckCapacity {
        id: Uuid,
        rollback_to: Option<Uuid>,
    },
    List {},
    WaitStopped {
        id: Uuid,
    },
    Maintain {},
    WatchDisk {},
    Suspend {
        id: Uuid,
    },
    Resume {
        spec: SpecText,
        boot: BootText,
    },
    DiscardMemory {
        id: Uuid,
    },
    SavedState {
        id: Uuid,
    },
    ReadSaved {
        id: Uuid,
        file: String,
        from: u64,
        most: u64,
    },
    Evict {
        id: Uuid,
    },
    WriteSaved {
        id: Uuid,
        file: SavedFile,
        places: Vec<(u64, u64)>,
    },
    FinishFetch {
        id: Uuid,
        with_memory: bool,
    },
    SyncFetched {
        id: Uuid,
    },
    Resize {
        id: Uuid,
        change: Change,
    },
    SetEgress {
        id: Uuid,
        /// The policy's text; `None` removes it.
        policy: Option<String>,
    },
    CopyDisk {
        from: Uuid,
        to: SpecText,
    },
    Fork {
        from: Uuid,
        to: SpecText,
    },
    Launch {
        from: Uuid,
        snapshot: Uuid,
        to: SpecText,
    },
    Snapshot {
        id: Uuid,
        snapshot: Uuid,
        memory: bool,
    },
    Rollback {
        id: Uuid,
        snapshot: Uuid,
    },
    RemoveSnapshot {
        id: Uuid,
        snapshot: Uuid,
    },
    Snapshots {
        id: Uuid,
    },
    KeepLayer {
        id: Uuid,
        layer: Uuid,
    },
    BaseId {
        name: String,
    },
    KeepBase {
        name: String,
        id: String,
        layer: Uuid,
    },
    RemoveLayer {
        layer: Uuid,
    },
    Layers {},
}

impl Call {
    /// The machines that it works on. A layer counts as one: all ids are different.
    pub(super) fn machines(&self) -> Vec<ComputerId> {
        let ids = match self {
            Self::Describe {}
            | Self::ImageId {}
            | Self::BaseId { .. }
            | Self::BootInputs { .. }
            | Self::List {}
            | Self::Layers {}
            | Self::Maintain {}
            | Self::WatchDisk {} => Vec::new(),
            // Keys of all machines: one id, so that such calls of two controllers come one after the other.
            Self::AddKeys { .. } | Self::RemoveUnusedKeys {} => vec![Uuid::nil()],
            Self::Create { spec } | Self::Start { spec, .. } | Self::Resume { spec, .. } => vec![spec.id],
            Self::Stop { id, .. }
            | Self::Destroy { id }
            | Self::Encrypt { id, .. }
            | Self::Observe { id }
            | Self::CheckCapacity { id, .. }
            | Self::WaitStopped { id }
            | Self::Suspend { id }
            | Self::DiscardMemory { id }
            | Self::SavedState { id }
            | Self::ReadSaved { id, .. }
            | Self::Evict { id }
            | Self::WriteSaved { id, .. }
            | Self::FinishFetch { id, .. }
            | Self::SyncFetched { id }
            | Self::Resize { id, .. }
            | Self::SetEgress { id, .. }
            | Self::Snapshot { id, .. }
            | Self::Rollback { id, .. }
            | Self::RemoveSnapshot { id, .. }
            | Self::Snapshots { id } => vec![*id],
            Self::KeepLayer { id, layer } => vec![*id, *layer],
            Self::KeepBase { layer, .. } | Self::RemoveLayer { layer } => vec![*layer],
            Self::CopyDisk { from, to } | Self::Fork { from, to } | Self::Launch { from, to, .. } => {
                vec![*from, to.id]
            }
        };
        ids.into_iter().map(ComputerId).collect()
    }
}

/// A [`MachineSpec`], not yet checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpecText {
    pub(super) id: Uuid,
    pub(super) isolation: String,
    pub(super) cpu: f64,
    pub(super) memory_bytes: u64,
    pub(super) disk_bytes: u64,
    pub(super) bandwidth_mbps: u32,
    pub(super) layers: Vec<Uuid>,
    pub(super) egress: Option<String>,
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
pub(super) struct BootText {
    pub(super) generation: u64,
    #[serde(serialize_with = "reveal")]
    pub(super) token: Secret,
    pub(super) resolution: String,
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
pub(super) struct KeyText(#[serde(serialize_with = "reveal")] pub(super) Secret);

impl From<&FileKey> for KeyText {
    fn from(key: &FileKey) -> Self {
        Self(key.digits().clone())
    }
}

/// A reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The operation is complete and returns nothing.
    Complete,
    /// What the helper offers, the default first.
    Offers(Vec<OfferText>),
    ImageId(String),
    BaseId(Option<String>),
    BootInputs(String),
    Endpoint(EndpointText),
    Observation(ObservationText),
    Machines(Vec<Uuid>),
    /// A machine has stopped; whether the guard of the host's disk killed it.
    Stopped {
        killed: bool,
    },
    /// A [`DiskWatch`](crate::DiskWatch) with the machines that are frozen.
    Disk {
        free: u64,
        next_ms: u64,
        frozen: Vec<Uuid>,
    },
    SavedState(Option<SavedState>),
    Extents(Vec<(u64, u64)>),
    Effect(Effect),
    Snapshot(Snapshot),
    Snapshots(Vec<Uuid>),
    /// A layer is there, with the bytes of its files.
    Layer(u64),
    Layers(Vec<Uuid>),
    Failure(FailureText),
}

/// An [`Offer`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OfferText {
    isolation: String,
    engine: String,
    capabilities: Capabilities,
}

impl From<&Offer> for OfferText {
    fn from(offer: &Offer) -> Self {
        let Offer { isolation, engine, capabilities } = *offer;
        Self { isolation: isolation.name().to_owned(), engine: engine.to_owned(), capabilities }
    }
}

impl TryFrom<OfferText> for Offer {
    type Error = EngineError;

    fn try_from(text: OfferText) -> Result<Self, EngineError> {
        let OfferText { isolation, engine, capabilities } = text;
        let Some(isolation) = Isolation::parse(&isolation) else {
            let detail =
                format!("it offers the unknown isolation {isolation:?}; restart controller and helper");
            return Err(EngineError::failed("understand the host helper", detail));
        };
        Ok(Self { isolation, engine: interned(&engine), capabilities })
    }
}

/// An [`Endpoint`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EndpointText {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl From<Endpoint> for EndpointText {
    fn from(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Unix(path) => Self::Unix(path),
            Endpoint::Tcp(address) => Self::Tcp(address),
        }
    }
}

impl From<EndpointText> for Endpoint {
    fn from(endpoint: EndpointText) -> Self {
        match endpoint {
            EndpointText::Unix(path) => Self::Unix(path),
            EndpointText::Tcp(address) => Self::Tcp(address),
        }
    }
}

/// An [`Observation`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ObservationText {
    Absent,
    Stopped,
    Suspended { generation: u64 },
    Running { generation: u64, endpoint: EndpointText, address: Option<IpAddr> },
}

impl From<Observation> for ObservationText {
    fn from(observation: Observation) -> Self {
        match observation {
            Observation::Absent => Self::Absent,
            Observation::Stopped => Self::Stopped,
            Observation::Suspended { generation } => Self::Suspended { generation },
            Observation::Running { generation, endpoint, address } => {
                Self::Running { generation, endpoint: endpoint.into(), address }
            }
        }
    }
}

impl From<ObservationText> for Observation {
    fn from(observation: ObservationText) -> Self {
        match observation {
            ObservationText::Absent => Self::Absent,
            ObservationText::Stopped => Self::Stopped,
            ObservationText::Suspended { generation } => Self::Suspended { generation },
            ObservationText::Running { generation, endpoint, address } => {
                Self::Running { generation, endpoint: endpoint.into(), address }
            }
        }
    }
}

/// An [`EngineError`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FailureText {
    NoCapacity(Shortage, String),
    Absent,
    MemoryInUse { used: u64, limit: u64 },
    Unsupported(String),
    Damaged(String),
    Step { step: String, detail: String },
}

impl From<EngineError> for FailureText {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NoCapacity(short, detail) => Self::NoCapacity(short, detail),
            EngineError::Absent => Self::Absent,
            EngineError::MemoryInUse { used, limit } => Self::MemoryInUse { used, limit },
            EngineError::Unsupported(what) => Self::Unsupported(what.to_owned()),
            EngineError::Damaged(detail) => Self::Damaged(detail),
            EngineError::Failed { step, detail } => Self::Step { step: step.to_owned(), detail },
        }
    }
}

impl From<FailureText> for EngineError {
    fn from(failure: FailureText) -> Self {
        match failure {
            FailureText::NoCapacity(short, detail) => Self::NoCapacity(short, detail),
            FailureText::Absent => Self::Absent,
            FailureText::MemoryInUse { used, limit } => Self::MemoryInUse { used, limit },
            FailureText::Unsupported(what) => Self::Unsupported(interned(&what)),
            FailureText::Damaged(detail) => Self::Damaged(detail),
            FailureText::Step { step, detail } => Self::Failed { step: interned(&step), detail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_survives_the_way_through_the_protocol() {
        for error in [
            EngineError::NoCapacity(Shortage::LoopDevices, "none".to_owned()),
            EngineError::Absent,
            EngineError::MemoryInUse { used: 2, limit: 1 },
            EngineError::Unsupported("save memory"),
            EngineError::Damaged("/x".to_owned()),
            EngineError::failed("mount the disk", "/x: no"),
        ] {
            let text = serde_json::to_string(&FailureText::from(error.clone())).unwrap();
            let back = EngineError::from(serde_json::from_str::<FailureText>(&text).unwrap());
            assert_eq!(format!("{back:?}"), format!("{error:?}"));
        }
    }

    #[test]
    fn unknown_calls_and_fields_are_refused_and_secrets_are_not_printed() {
        let id = Uuid::nil();
        for text in [
            r#"{"run_shell":{"command":"id"}}"#.to_owned(),
            format!(r#"{{"stop":{{"id":"{id}","grace_ms":1,"path":"/etc"}}}}"#),
            r#"{"stop":{"id":"../../etc","grace_ms":1}}"#.to_owned(),
            format!(r#"{{"stop":{{"id":"{id}","grace_ms":-1}}}}"#),
        ] {
            assert!(serde_json::from_str::<Call>(&text).is_err(), "{text}");
        }
        let token = Secret::new("secret-token");
        let boot = BootText { generation: 1, token, resolution: "1280x720x24".to_owned() };
        assert!(serde_json::to_string(&boot).unwrap().contains("secret-token"));
        assert!(!format!("{boot:?}").contains("secret-token"));
        let call = Call::AddKeys { keys: vec![KeyText(Secret::new("secret-key"))] };
        assert_eq!(serde_json::to_string(&call).unwrap(), r#"{"add_keys":{"keys":["secret-key"]}}"#);
        assert!(!format!("{call:?}").contains("secret-key"));
    }
}
