//! Finished layers of a failed build, for a computer in which its author looks for the cause.

use super::build::Plan;
use super::{LaunchSource, Templates, parse};
use hotdesk_domain::computer::template::build::{BuildStatus, BuildStep};
use hotdesk_domain::error::{Error, Result};
use hotdesk_store::templates::definitions::StoredTemplate;

/// A failed build.
#[derive(Clone, Debug)]
pub struct FailedBuild {
    /// A launch of what it has finished.
    pub source: LaunchSource,
    /// Fields of the finished steps.
    pub finished: Vec<String>,
    /// The steps that are left. One of the first layer of them failed.
    pub left: Vec<BuildStep>,
}

impl Templates {
    /// Returns what the last build of a template has finished, and what is left. Layers that are gone count as left.
    ///
    /// # Errors
    /// `Conflict` when no build of it failed, or its imported image has no desktop yet; `Unprocessable` (`template_invalid`) for a definition that cannot be built;
    /// `Internal` when the database fails.
    pub async fn failed_build(&self, template: &StoredTemplate) -> Result<FailedBuild> {
        let build = self.0.store.template_build(template.account, &template.digest).await?;
        if build.is_none_or(|build| build.status != BuildStatus::Failed) {
            let message = format!(
                "no build of {} failed: only a failed one can be opened as a computer",
                template.reference
            );
            return Err(Error::conflict(message));
        }
        let definition = parse(template).await?;
        let plan = Plan::of(&self.0.fleet.shared, &definition).await?;
        let operator = self.0.store.operator_account().await?;
        let (mut layers, mut finished, mut left) = (Vec::new(), Vec::new(), Vec::new());
        for planned in plan.layers {
            let found = if left.is_empty() {
                let owner = planned.owner(template.account, operator);
                self.0.store.use_template_layer(owner, &planned.inputs).await?
            } else {
                None
            };
            match found {
                Some(layer) => {
                    layers.push(layer);
                    finished.extend(planned.steps.into_iter().map(|step| step.field));
                }
                // Without these layers the computer would be another one, or have no desktop.
                None if planned.is_of_base() => {
                    let message = format!(
                        "the build of {} failed before its base had a desktop, so no computer can show it: read the build's log",
                        template.reference
                    );
                    return Err(Error::conflict(message));
                }
                None => left.extend(planned.steps),
            }
        }
        let source = LaunchSource { reference: template.reference.clone(), definition, layers };
        Ok(FailedBuild { source, finished, left })
    }
}
