//! Layers of simulated machines: folders. A machine begins with a copy of their files, so a layer has the files of those below it.

use std::fs;
use std::io;

use crate::simulated::resize::copy_folder;
use crate::simulated::snapshots::size_of;
use crate::simulated::{SimulatedEngine, ids_in, ignore_missing};
use crate::{EngineError, EngineResult, MachineSpec};
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::template::build::PROGRAMS_FILE;

const MAKE: &str = "make a layer";
const REMOVE: &str = "remove a layer";

impl SimulatedEngine {
    /// Gives a new machine the files of its layers. A machine that is there keeps its own.
    pub(super) fn add_layers(&self, spec: &MachineSpec) -> EngineResult<()> {
        const STEP: &str = "find the layers of the machine";
        let disk = self.host.machine(spec.id).join("disk");
        if disk.is_dir() {
            return Ok(());
        }
        for layer in &spec.layers {
            if !self.host.layer(*layer).is_dir() {
                return Err(EngineError::failed(STEP, format!("{layer} is not on this host")));
            }
        }
        for layer in &spec.layers {
            copy_folder(&self.host.layer(*layer), &disk).map_err(|error| EngineError::failed(STEP, error))?;
        }
        self.host.layers().insert(spec.id, spec.layers.clone());
        Ok(())
    }

    /// Refuses a spec with other layers than those of the machine `of`.
    pub(super) fn check_layers(&self, of: ComputerId, spec: &MachineSpec) -> EngineResult<()> {
        let own = self.host.layers().get(&of).cloned().unwrap_or_default();
        if own == spec.layers {
            return Ok(());
        }
        let detail = format!("machine {of} has the layers {own:?}, and {:?} were asked for", spec.layers);
        Err(EngineError::failed("use the disk with other layers", detail))
    }

    pub(super) fn make_layer(&self, id: ComputerId, layer: LayerId) -> EngineResult<u64> {
        let failed = |error: io::Error| EngineError::failed(MAKE, error);
        let (machine, folder) = (self.host.machine(id), self.host.layer(layer));
        if !folder.is_dir() {
            if !machine.is_dir() {
                return Err(EngineError::Absent);
            }
            if self.host.running().contains_key(&id) || self.saved_since(id)?.is_some() {
                return Err(EngineError::failed(MAKE, "the machine runs, or its memory is saved"));
            }
            copy_folder(&machine.join("disk"), &folder).map_err(failed)?;
        }
        size_of(&folder).map_err(failed)
    }

    /// Makes the layer with a list of programs. Those below do not matter: nobody makes links there.
    pub(super) fn write_programs(&self, list: &str, layer: LayerId) -> EngineResult<Option<u64>> {
        let failed = |error: io::Error| EngineError::failed(MAKE, error);
        let folder = self.host.layer(layer);
        if !folder.is_dir() {
            let file = folder.join(PROGRAMS_FILE.trim_start_matches('/'));
            fs::create_dir_all(file.parent().unwrap_or(&folder)).map_err(failed)?;
            fs::write(file, list).map_err(failed)?;
        }
        size_of(&folder).map(Some).map_err(failed)
    }

    pub(super) fn delete_layer(&self, layer: LayerId) -> EngineResult<()> {
        if let Some((id, _)) = self.host.layers().iter().find(|(_, layers)| layers.contains(&layer)) {
            return Err(EngineError::failed(REMOVE, format!("machine {id} has {layer}")));
        }
        let folder = self.host.layer(layer);
        ignore_missing(fs::remove_dir_all(&folder), REMOVE, &folder)
    }

    pub(super) fn list_layers(&self) -> EngineResult<Vec<LayerId>> {
        ids_in(&self.host.layer_folder(), "list the layers")
    }
}
