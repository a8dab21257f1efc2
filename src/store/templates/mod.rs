//! Templates of accounts: published definitions, builds, and the layers that builds made.

pub mod builds;
pub mod definitions;
pub mod layers;
pub mod saved;
pub mod stars;

use crate::id;
use hotdesk_base::ids::LayerId;
use hotdesk_domain::error::Result;

/// The column text of a list of layers.
pub(crate) fn layers_text(layers: &[LayerId]) -> String {
    let ids: Vec<String> = layers.iter().map(LayerId::to_string).collect();
    ids.join(" ")
}

/// Parses [`layers_text`].
pub(crate) fn parse_layers(text: &str) -> Result<Vec<LayerId>> {
    text.split_whitespace().map(id).collect()
}
