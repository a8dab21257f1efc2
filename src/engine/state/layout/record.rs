//! The record of one machine: its sizes, isolation, layers and egress policy.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

use super::Folder;
use crate::host::command::host_error;
use crate::host::files::write_durably;
use crate::{Change, EngineError, EngineResult, MachineSpec};
use hotdesk_base::ids::LayerId;
use hotdesk_domain::computer::isolation::Isolation;
use hotdesk_domain::computer::template::network::egress::EgressPolicy;

/// The step of reading a record.
const READ_RECORD: &str = "read the machine's record";

/// `machine.json`: the id and sizes of a machine.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub(crate) struct Record {
    /// The computer that it belongs to.
    pub(crate) computer: uuid::Uuid,
    /// vCPUs.
    pub(crate) cpu: f64,
    /// Memory in bytes.
    pub(crate) memory_bytes: u64,
    /// Disk in bytes.
    pub(crate) disk_bytes: u64,
    /// Megabits a second each way, 0 for unlimited; records of earlier versions lack it.
    #[serde(default)]
    pub(crate) bandwidth_mbps: u32,
    /// The name of the isolation that what the host has of it belongs to; records of earlier versions lack it.
    #[serde(default)]
    pub(crate) isolation: Option<String>,
    /// Its read-only layers, the lowest first; records of earlier versions lack them.
    #[serde(default)]
    pub(crate) layers: Vec<uuid::Uuid>,
    /// The text of its egress policy; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) egress: Option<String>,
}

impl Record {
    /// The record of a spec.
    pub(crate) fn of(spec: &MachineSpec) -> Self {
        let MachineSpec { id, isolation, cpu, memory_bytes, disk_bytes, bandwidth_mbps, .. } = *spec;
        let isolation = Some(isolation.name().to_owned());
        let layers = spec.layers.iter().map(|layer| layer.0).collect();
        let egress = spec.egress.as_ref().map(ToString::to_string);
        Self { computer: id.0, cpu, memory_bytes, disk_bytes, bandwidth_mbps, isolation, layers, egress }
    }

    /// Refuses a spec with other layers than these. What a machine has written only fits the layers it was written above.
    pub(crate) fn check_layers(&self, spec: &MachineSpec) -> EngineResult<()> {
        if spec.layers.iter().map(|layer| layer.0).eq(self.layers.iter().copied()) {
            return Ok(());
        }
        let list =
            |layers: Vec<String>| if layers.is_empty() { "none".to_owned() } else { layers.join(", ") };
        let own = list(self.layers.iter().map(ToString::to_string).collect());
        let wanted = list(spec.layers.iter().map(ToString::to_string).collect());
        let detail = format!(
            "machine {} has the layers {own}, and {wanted} were asked for: a machine and its copies keep the layers that \
             it was made with",
            self.computer
        );
        Err(EngineError::failed("use the disk with other layers", detail))
    }

    /// Its egress policy.
    ///
    /// # Errors
    /// `Failed` when the record has none that is valid.
    pub(crate) fn egress_policy(&self) -> EngineResult<Option<EgressPolicy>> {
        let parse = |text: &String| text.parse().map_err(|error| EngineError::failed(READ_RECORD, error));
        self.egress.as_ref().map(parse).transpose()
    }

    /// Its layers, the lowest first.
    pub(crate) fn layers(&self) -> impl Iterator<Item = LayerId> {
        self.layers.iter().copied().map(LayerId)
    }

    /// The isolation; `None` in records of earlier versions.
    pub(crate) fn isolation(&self) -> Option<Isolation> {
        self.isolation.as_deref().and_then(Isolation::parse)
    }

    /// The record after a change. Disks never shrink.
    pub(crate) fn changed(&self, change: Change) -> EngineResult<Self> {
        let mut after = self.clone();
        match change {
            Change::Cpu(cpu) => after.cpu = cpu,
            Change::Memory(bytes) => after.memory_bytes = bytes,
            Change::Disk(bytes) if bytes < self.disk_bytes => {
                let detail =
                    format!("{bytes} bytes is less than {}, and a disk cannot shrink", self.disk_bytes);
                return Err(EngineError::failed("grow the disk", detail));
            }
            Change::Disk(bytes) => after.disk_bytes = bytes,
            Change::Bandwidth(mbps) => after.bandwidth_mbps = mbps,
        }
        Ok(after)
    }
}

impl Folder {
    /// Writes the record durably.
    pub(crate) fn write_record(&self, record: &Record) -> EngineResult<()> {
        const STEP: &str = "write the machine's record";
        let text = serde_json::to_vec_pretty(record).map_err(|error| EngineError::failed(STEP, error))?;
        write_durably(&self.record(), &text).map_err(host_error(STEP, &self.record()))
    }

    /// Updates the record to the spec that the machine starts with, if its sizes changed.
    ///
    /// # Errors
    /// `Failed` also when the spec has other layers.
    pub(crate) fn update_record(&self, spec: &MachineSpec) -> EngineResult<()> {
        let (before, record) = (self.read_record()?, Record::of(spec));
        before.check_layers(spec)?;
        if before == record { Ok(()) } else { self.write_record(&record) }
    }

    /// Reads the record; `None` when there is none, or when the folder is encrypted and its key is missing: nothing in it can
    /// be found then.
    pub(crate) fn find_record(&self) -> EngineResult<Option<Record>> {
        let path = self.record();
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The name of a file that was open may still be known.
            Err(error) if error.raw_os_error() == Some(nix::libc::ENOKEY) => return Ok(None),
            text => text.map_err(host_error(READ_RECORD, &path))?,
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| EngineError::failed(READ_RECORD, format!("{}: {error}", path.display())))
    }

    /// Reads the record.
    pub(crate) fn read_record(&self) -> EngineResult<Record> {
        match self.find_record()? {
            Some(record) => Ok(record),
            None if self.is_locked()? => Err(self.key_missing()),
            None => {
                let detail = format!("{} is missing", self.record().display());
                Err(EngineError::failed(READ_RECORD, detail))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::files::private_folder;
    use crate::state::layout::StateDir;
    use hotdesk_base::ids::ComputerId;

    #[test]
    fn a_record_survives_being_written_and_read() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::open(temp.path()).unwrap();
        let id = ComputerId::random();
        let folder = state.folder(id);
        private_folder(&folder.path).unwrap();
        let record = Record::of(&MachineSpec {
            id,
            isolation: Isolation::Vm,
            cpu: 0.5,
            memory_bytes: 1 << 30,
            disk_bytes: 8 << 30,
            bandwidth_mbps: 100,
            layers: vec![LayerId::random()],
            egress: Some("allow example.com 192.0.2.0/24".parse().unwrap()),
        });
        folder.write_record(&record).unwrap();
        assert_eq!(folder.read_record().unwrap(), record);
        assert_eq!(folder.read_record().unwrap().isolation(), Some(Isolation::Vm));
        assert_eq!(state.list().unwrap(), [id]);
        assert!(!folder.is_whole().unwrap());
    }

    #[test]
    fn a_machine_keeps_its_layers_in_their_order() {
        let [one, two] = [LayerId::random(), LayerId::random()];
        let spec = |layers: &[LayerId]| MachineSpec {
            id: ComputerId::random(),
            isolation: Isolation::Shared,
            cpu: 1.0,
            memory_bytes: 1,
            disk_bytes: 1,
            bandwidth_mbps: 0,
            layers: layers.to_vec(),
            egress: None,
        };
        let record = Record::of(&spec(&[one, two]));
        record.check_layers(&spec(&[one, two])).unwrap();
        for other in [&[][..], &[one], &[two, one]] {
            let refused = format!("{:#}", record.check_layers(&spec(other)).unwrap_err());
            assert!(refused.contains(&format!("has the layers {one}, {two}")), "{refused}");
        }
        Record::of(&spec(&[])).check_layers(&spec(&[])).unwrap();
        let earlier = serde_json::json!({"computer": uuid::Uuid::nil(), "cpu": 1.0, "memory_bytes": 1, "disk_bytes": 1});
        let earlier: Record = serde_json::from_value(earlier).unwrap();
        earlier.check_layers(&spec(&[])).unwrap();
    }

    #[test]
    fn one_dimension_changes_and_a_disk_never_shrinks() {
        let before = Record {
            computer: uuid::Uuid::nil(),
            cpu: 1.0,
            memory_bytes: 4,
            disk_bytes: 8,
            bandwidth_mbps: 0,
            isolation: None,
            layers: Vec::new(),
            egress: None,
        };
        for (change, after) in [
            (Change::Cpu(2.0), Some(Record { cpu: 2.0, ..before.clone() })),
            (Change::Memory(3), Some(Record { memory_bytes: 3, ..before.clone() })),
            (Change::Disk(9), Some(Record { disk_bytes: 9, ..before.clone() })),
            (Change::Disk(8), Some(before.clone())),
            (Change::Disk(7), None),
            (Change::Bandwidth(5), Some(Record { bandwidth_mbps: 5, ..before.clone() })),
        ] {
            assert_eq!(before.changed(change).ok(), after, "{change:?}");
        }
    }
}
