//! How is told what a computer can tell? The catalogue of `GET events`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use hotdesk_domain::event::{self, Kind};

/// `GET events`: what a computer can tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Catalogue {
    /// One line per type.
    pub events: Vec<CatalogueEntry>,
    /// Their names alone.
    pub event_types: Vec<String>,
}

/// A type of event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueEntry {
    /// The name to subscribe by.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happens.
    pub description: String,
    /// How it is found, and how soon.
    pub detection: String,
    /// The fields of its `data`, by name.
    pub data: BTreeMap<String, CatalogueField>,
}

/// A field of an event's `data`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueField {
    /// `string`, `integer` or `boolean`.
    #[serde(rename = "type")]
    pub json: String,
    /// What it says.
    pub description: String,
}

impl Catalogue {
    /// The catalogue of this version.
    pub fn current() -> Self {
        let field = |field: &event::Field| {
            let said = CatalogueField { json: field.json.into(), description: field.meaning.into() };
            (field.name.to_owned(), said)
        };
        let line = |entry: &event::Entry| CatalogueEntry {
            kind: entry.name.into(),
            description: entry.description.into(),
            detection: entry.detection.into(),
            data: entry.data.iter().map(field).collect(),
        };
        Self {
            events: event::catalogue().iter().map(line).collect(),
            event_types: Kind::ALL.iter().map(|kind| kind.name().to_owned()).collect(),
        }
    }
}
