//! Layer with the list of programs: written by the engine, or made by a machine where something is missing.

use futures_util::FutureExt as _;

use super::{Build, NewLayer};
use crate::computers::runner::{hardware_spec, refused};
use crate::computers::templates::BUILD_FAILED;
use crate::computers::templates::build_log::Phase;
use crate::computers::templates::retention::remove_layer;
use crate::computers::templates::steps::program_list::ProgramList;
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::error::Result;
use hotdesk_engine::MachineSpec;

impl Build<'_> {
    /// Makes the layer with the list of programs. `fits_list` is whether the machine of the layer below had what they need; `None`
    /// when there was no such machine.
    pub(super) async fn make_programs(
        &self,
        new: &NewLayer<'_>,
        list: &ProgramList,
        fits_list: Option<bool>,
    ) -> Result<LayerId> {
        let known = if list.needs_nothing() { Some(true) } else { fits_list };
        let (is_written, asks) = match known {
            Some(fits_list) => (fits_list, false),
            None => (list.fits_image && self.checks_services(list).await?, true),
        };
        if is_written && let Some(layer) = self.write_programs(new, list, asks).await? {
            return Ok(layer);
        }
        self.make_layer(new, None).await.map(|made| made.layer)
    }

    /// Writes the layer with the list of programs, without a machine. With `asks` the machine of the check is asked whether it has
    /// what they need. Returns `None` when a machine must make the layer; nothing is left then.
    async fn write_programs(
        &self,
        new: &NewLayer<'_>,
        list: &ProgramList,
        asks: bool,
    ) -> Result<Option<LayerId>> {
        // What follows does not look for the end of the build, unless there is a check.
        if let Some(error) = self.interruption().now_or_never() {
            return Err(error);
        }
        self.log.enter(Phase::Snapshot);
        let layer = LayerId::random();
        let owner = new.planned.owner(self.account, self.operator);
        self.fleet.store.add_template_layer(owner, layer, &new.planned.inputs).await?;
        let written = self.fleet.engine.keep_programs(&list.text, new.below, layer).await;
        let made = match written {
            Ok(Some(bytes)) => {
                let title = new.planned.title();
                self.note(Phase::Snapshot, &format!("{title} is written without a computer"));
                self.complete(new, layer, bytes, asks).await
            }
            Ok(None) => Ok(false),
            Err(error) => Err(refused(BUILD_FAILED, &error)),
        };
        if !matches!(made, Ok(true)) {
            remove_layer(self.fleet, layer).await;
        }
        made.map(|is_made| is_made.then_some(layer))
    }

    /// Checks the services over a layer that is on the host, and stores that it is complete. Returns false without that when the
    /// machine of the check `asks` whether it has what the programs need, and it has not.
    pub(super) async fn complete(
        &self,
        new: &NewLayer<'_>,
        layer: LayerId,
        bytes: u64,
        asks: bool,
    ) -> Result<bool> {
        if let Some(list) = new.list {
            let layers = [new.below, &[layer]].concat();
            let spec = hardware_spec(ComputerId::random(), new.isolation, &new.hardware);
            if !self.check_services(list, &MachineSpec { layers, ..spec }, asks).await? {
                return Ok(false);
            }
        }
        self.fleet.store.finish_template_layer(layer, bytes).await.map(|()| true)
    }
}
