//! Plan of a build: the layers that a definition needs over the present guest image.

use std::collections::BTreeMap;

use crate::computers::runner::registry::FleetState;
use crate::computers::templates::steps;
use crate::computers::templates::steps::desktop::DESKTOP;
use hotdesk_domain::computer::template::build::{PlannedLayer, plan_base, plan_layers};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_wire::template::TemplateDefinition;

/// Layers that a build of a definition makes.
pub struct Plan {
    /// The guest image below the layers.
    pub image: String,
    /// Environment of the steps.
    pub environment: BTreeMap<String, String>,
    /// Digest of the imported image whose files the lowest layer has.
    pub base_id: Option<String>,
    /// The layers, the lowest first.
    pub layers: Vec<PlannedLayer>,
}

impl Plan {
    /// Plans the layers of a definition over the present guest image.
    ///
    /// # Errors
    /// `Unprocessable` (`template_invalid`) when its imported image is absent; `Internal` when the engine fails.
    pub async fn of(fleet: &FleetState, definition: &TemplateDefinition) -> Result<Self> {
        let image = fleet.engine.image_id().await.map_err(Error::internal)?;
        let environment = definition.values()?.environment().clone();
        let text = serde_json::to_string(&environment).map_err(Error::internal)?;
        let (mut layers, mut base_id) = (Vec::new(), None);
        if let Some(name) = &definition.base {
            let id = fleet.engine.base_id(name).await.map_err(Error::internal)?;
            let id = id.ok_or_else(|| missing_base(name))?;
            layers = plan_base(&image, &id, name.clone(), DESKTOP.clone());
            base_id = Some(id);
        }
        let below = layers.last().map_or(&image, |layer| &layer.inputs);
        let own = plan_layers(below, layers.len(), &text, steps::steps(definition)?);
        layers.extend(own);
        Ok(Self { image, environment, base_id, layers })
    }
}

fn missing_base(name: &str) -> Error {
    let message = format!(
        "base: there is no imported image {name} on this service: its operator imports one (hotdesk image import {name} SOURCE)"
    );
    Error::unprocessable(message).code(ErrorCode::TemplateInvalid)
}
