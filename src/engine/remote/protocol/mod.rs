//! Messages between a controller and the host helper: one request and one reply on each connection.
//!
//! Raw data follows the text of [`Call::WriteSaved`], [`Call::KeepPrograms`] and [`Reply::Extents`], see `frames.rs`.

mod arguments;
mod results;

pub(super) use arguments::{BootText, KeyText, SpecText};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Change, Effect, LeftoverRecord, SavedFile, SavedState, Snapshot};
use hotdesk_base::ids::ComputerId;
use results::{EndpointText, FailureText, FindingsText, ObservationText, OfferText};

/// Version of the protocol; helper and controller must have the same one.
pub(super) const VERSION: u32 = 7;

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
    /// The list is raw data: it may be longer than a text.
    KeepPrograms {
        below: Vec<Uuid>,
        layer: Uuid,
    },
    RemoveLayer {
        layer: Uuid,
    },
    Layers {},
    CheckHost {
        thorough: bool,
    },
    FindLeftovers {
        owned: Vec<Uuid>,
    },
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
            | Self::CheckHost { .. }
            | Self::FindLeftovers { .. }
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
            Self::KeepBase { layer, .. } | Self::KeepPrograms { layer, .. } | Self::RemoveLayer { layer } => {
                vec![*layer]
            }
            Self::CopyDisk { from, to } | Self::Fork { from, to } | Self::Launch { from, to, .. } => {
                vec![*from, to.id]
            }
        };
        ids.into_iter().map(ComputerId).collect()
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
    /// The same of one that the host may be unable to make without a machine.
    WrittenLayer(Option<u64>),
    Layers(Vec<Uuid>),
    Findings(Vec<FindingsText>),
    Leftovers(Vec<LeftoverRecord>),
    Failure(FailureText),
}

#[cfg(test)]
mod tests {
    use hotdesk_base::secret::Secret;

    use super::*;

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
