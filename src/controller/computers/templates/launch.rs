//! Sources of launches: layers, ports and terminals of built templates.

use super::{SAVED, Templates, parse};
use hotdesk_base::ids::{AccountId, LayerId};
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::computer::template::build::BuildStatus;
use hotdesk_domain::desktop::terminal::ComputerTerminal;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::network::port::ComputerPort;
use hotdesk_store::templates::definitions::StoredTemplate;
use hotdesk_wire::template::{Choice as _, TemplateApp, TemplateDefinition, TemplatePort, TemplateTerminal};

/// Source of a launch.
#[derive(Clone, Debug)]
pub struct LaunchSource {
    /// The template.
    pub reference: TemplateRef,
    /// Its definition.
    pub definition: TemplateDefinition,
    /// Its layers, the lowest first.
    pub layers: Vec<LayerId>,
}

impl LaunchSource {
    /// Returns the ports that the template declares.
    pub fn ports(&self) -> Vec<ComputerPort> {
        let of_app = |app: &TemplateApp| {
            let name = app.name.clone();
            let port = move |port: &TemplatePort| ComputerPort {
                number: port.internal,
                protocol: port.protocol.word().to_owned(),
                is_open: port.public,
                app: name.clone(),
            };
            app.ports.iter().map(port).collect::<Vec<_>>()
        };
        self.definition.apps.iter().flat_map(of_app).collect()
    }

    /// Returns the terminals that the template declares.
    pub fn terminals(&self) -> Vec<ComputerTerminal> {
        let terminal = |entry: &TemplateTerminal| ComputerTerminal {
            name: entry.name.clone(),
            title: entry.title.clone(),
        };
        self.definition.terminal.iter().map(terminal).collect()
    }
}

impl Templates {
    /// Returns what a computer of an account is launched from.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` (`TEMPLATE_NOT_READY`) when it is not built, or was built for another guest image.
    pub async fn launch_source(&self, account: AccountId, reference: &TemplateRef) -> Result<LaunchSource> {
        let template = self.find(account, reference).await?;
        let Some(layers) = self.ready_layers(&template).await? else {
            let status = self.status(&template).await?.status;
            let message = match BuildStatus::parse(&status) {
                Some(BuildStatus::Building) => {
                    format!("The template {reference} is being built: wait until it is ready")
                }
                Some(BuildStatus::Ready) if template.saved => format!("The template {reference} {SAVED}"),
                Some(BuildStatus::Ready) => {
                    format!(
                        "The template {reference} was built for another guest image, or its layers are gone: build it again"
                    )
                }
                Some(BuildStatus::Failed) | None if reference.is_system() => {
                    format!(
                        "The template {reference} is not built on this service: its operator builds it \
                         (hotdesk templates build {reference})"
                    )
                }
                Some(BuildStatus::Failed) | None => {
                    format!("The template {reference} is not built: build it first")
                }
            };
            return Err(Error::conflict(message).code(ErrorCode::TemplateNotReady));
        };
        Ok(LaunchSource { reference: reference.clone(), definition: parse(&template).await?, layers })
    }

    /// The layers of a template's build, if it is ready, of the present guest image, and all of them are there.
    pub(super) async fn ready_layers(&self, template: &StoredTemplate) -> Result<Option<Vec<LayerId>>> {
        let build = self.0.store.template_build(template.account, &template.digest).await?;
        let Some(built) = build.and_then(|build| build.built) else { return Ok(None) };
        let image = self.0.fleet.engine().image_id().await.map_err(Error::internal)?;
        if built.image != image || !self.0.store.use_template_layers(&built.layers).await? {
            return Ok(None);
        }
        Ok(Some(built.layers))
    }
}
