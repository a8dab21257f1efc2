//! Save of a computer as a template: what it wrote becomes one more layer above its own.
//!
//! ```text
//!   turn of the build queue --> runner of the computer: copy its disk to a machine of the save
//!     --> keep what it wrote as a layer --> destroy the machine --> publish document, layer and build at once
//! ```
//! The computer is in use again after the copy. Until the last step nothing is published: what a controller that dies leaves
//! is a machine of no computer and a layer that is not complete, and the next start removes both.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::queue::{BuildEnd, RunningBuild};
use super::retention::remove_layer;
use super::{Templates, check_disk};
use crate::computers::runner::registry::stopping;
use crate::computers::runner::{Runner, Work, machine_spec, refused};
use hotdesk_base::clock;
use hotdesk_base::ids::{ComputerId, LayerId};
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::computer::template::saving::SavedComputer;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_engine::{Engine, MAX_LAYERS, MachineSpec};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::templates::builds::BuiltLayers;
use hotdesk_store::templates::definitions::StoredTemplate;
use hotdesk_store::templates::saved::SavedLayer;
use hotdesk_wire::template::{TemplateDefinition, TemplateError, validate};

const FAILED: &str = "The computer could not be saved as a template";

/// Returns the definition of a template that is saved from a computer: its hardware, secrets, ports and terminals, and nothing to build.
///
/// # Errors
/// Why the reference, the description or the hardware is none of a template.
pub fn definition_of(
    computer: &Computer,
    reference: &TemplateRef,
    description: Option<&str>,
) -> std::result::Result<TemplateDefinition, Vec<TemplateError>> {
    let hardware = &computer.hardware;
    let mut document = json!({
        "api_version": "hotdesk/v1",
        "template": {"name": reference.name, "version": reference.version},
        "hardware": {
            "ram_gb": hardware.ram_gb,
            "disk_gb": hardware.disk_gb,
            "resolution": hardware.resolution.to_string(),
        },
    });
    if let Some(text) = description {
        document["template"]["description"] = json!(text);
    }
    // The services of its template, if it has some, are in its layers.
    if !computer.secrets.names.is_empty() {
        let names =
            computer.secrets.names.iter().map(|name| json!({"name": name.as_str().to_ascii_lowercase()}));
        document["secrets"] = names.collect();
    }
    // Its services go on, and so do their ports and its terminals.
    let mut apps: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for port in &computer.ports {
        let record = json!({"internal": port.number, "protocol": port.protocol, "public": port.is_open});
        apps.entry(port.app.as_str()).or_default().push(record);
    }
    if !apps.is_empty() {
        document["apps"] =
            apps.into_iter().map(|(name, ports)| json!({"name": name, "ports": ports})).collect();
    }
    if !computer.terminals.is_empty() {
        let terminals = computer.terminals.iter();
        document["terminal"] = terminals.map(|it| json!({"name": it.name, "title": it.title})).collect();
    }
    // Computers may have half a vCPU, and templates have whole ones.
    if hardware.cpu >= 1.0 {
        document["hardware"]["cpu"] = json!(hardware.cpu as u64);
    }
    validate(document.to_string().as_bytes())
}

impl Templates {
    /// Saves a computer as a template of its owner's account, and waits until the template is ready. The work continues if
    /// the caller disconnects.
    ///
    /// # Errors
    /// Those of [`SavedComputer::check`] and [`hotdesk_store::Store::publish_saved_template`]; `TooManyRequests`
    /// (`too_many_builds`) when too many builds of the account wait or run; `Forbidden` (`DISK_QUOTA_EXCEEDED`) when the
    /// account's disk is used up; why the disk could not be copied. Nothing stays then.
    pub async fn save(&self, computer: &Computer, definition: &TemplateDefinition) -> Result<StoredTemplate> {
        let fleet = &self.0.fleet.shared;
        check_source(&*fleet.engine, computer)?;
        let template = StoredTemplate {
            account: computer.owner,
            reference: definition.reference(),
            digest: definition.digest(),
            definition: serde_json::to_string(definition).map_err(Error::internal)?,
            saved: true,
            created_at: clock::now(),
        };
        let conflict = |what: &str| {
            let message = format!("{} {what}", template.reference);
            Error::conflict(message).code(ErrorCode::TemplateExists)
        };
        // The publication checks it again; nobody should wait for a copy in vain.
        if self.0.store.template(template.account, &template.reference).await?.is_some() {
            return Err(conflict("is published already: raise the version"));
        }
        let build = RunningBuild::of_computer(template.account, &template.digest);
        if !self.0.builds.register(&build)? {
            return Err(conflict("is being saved: wait for its end, or raise the version"));
        }
        fleet.note_action(computer.id);
        let end = BuildEnd(std::sync::Arc::clone(&build));
        let (this, computer) = (self.clone(), computer.clone());
        let saved = fleet.tasks.spawn("template save", async move {
            let _end = end;
            this.save_disk(&build, &computer, &template).await.map(|()| template)
        });
        saved.await.map_err(Error::internal)?.unwrap_or_else(|| Err(Error::internal("a save panicked")))
    }

    async fn save_disk(
        &self,
        build: &RunningBuild,
        computer: &Computer,
        template: &StoredTemplate,
    ) -> Result<()> {
        let (store, fleet) = (&self.0.store, &self.0.fleet.shared);
        let _turn = self.0.builds.turn(build, fleet.tasks.stopping()).await?;
        check_disk(store, &self.0.plans, template.account).await?;
        let image = fleet.engine.image_id().await.map_err(Error::internal)?;
        let layer = LayerId::random();
        let made = async {
            let bytes = self.make_saved_layer(computer.id, template, layer).await?;
            let layers = computer.layers.iter().copied().chain([layer]).collect();
            let built = BuiltLayers { image, layers };
            store.publish_saved_template(template, SavedLayer { id: layer, bytes }, &built).await
        };
        let made = made.await;
        if made.is_err() {
            remove_layer(fleet, layer).await;
        }
        made
    }

    /// Makes a layer of a copy of the computer's disk. Returns its size in bytes; no copy stays.
    async fn make_saved_layer(
        &self,
        computer: ComputerId,
        template: &StoredTemplate,
        layer: LayerId,
    ) -> Result<u64> {
        let (store, fleet) = (&self.0.store, &self.0.fleet.shared);
        let machine = ComputerId::random();
        let _lease = fleet.temporary_machines.lease(machine);
        let kept = async {
            let (_, copied) = fleet.send(computer, Work::CopyForTemplate(machine))?;
            copied.await.map_err(|_| stopping())??;
            // No other layer has these inputs: nothing can make it again.
            store.add_template_layer(template.account, layer, &format!("saved {layer}")).await?;
            fleet.engine.keep_layer(machine, layer).await.map_err(|error| refused(FAILED, &error))
        };
        let kept = kept.await;
        if let Err(error) = fleet.engine.destroy(machine).await {
            tracing::warn!(
                computer = %machine,
                error = format_args!("{error:#}"),
                "could not remove the copy of a save; the next start retries"
            );
        }
        kept
    }
}

fn check_source(engine: &dyn Engine, computer: &Computer) -> Result<()> {
    let capabilities = engine.offers().capabilities(computer.isolation);
    let source = SavedComputer {
        status: computer.status,
        isolation: computer.isolation,
        layers: computer.layers.len(),
        copy_while_running: capabilities.copy_while_running,
    };
    source.check(MAX_LAYERS)
}

impl Runner {
    /// Copies the disk to the machine of a save, which belongs to no computer.
    pub(in crate::computers) async fn copy_for_template(
        &self,
        row: &Computer,
        machine: ComputerId,
    ) -> Result<()> {
        check_source(&*self.shared.engine, row)?;
        // The save may have ended meanwhile.
        let _lease = self.shared.temporary_machines.lease(machine);
        self.run_pre_snapshot(row).await;
        let spec = MachineSpec { id: machine, ..machine_spec(row) };
        let copied = self.shared.engine.copy_disk(row.id, &spec).await;
        copied.map_err(|error| refused(FAILED, &error))
    }
}
