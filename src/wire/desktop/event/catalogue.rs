//! Catalogue of events (`GET events`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use hotdesk_domain::desktop::event::{self, EventKind};

/// `GET events`: the events that a computer can send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Catalogue {
    /// One entry per type.
    pub events: Vec<CatalogueEntry>,
    /// Names of the types.
    pub event_types: Vec<String>,
}

/// A type of event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueEntry {
    /// Name for subscriptions.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it happens.
    pub description: String,
    /// How it is detected, and how soon.
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
    /// Meaning of the value.
    pub description: String,
}

impl Catalogue {
    /// Returns the catalogue of this version.
    pub fn current() -> Self {
        let field = |field: &event::EventField| {
            let said = CatalogueField { json: field.json.into(), description: field.meaning.into() };
            (field.name.to_owned(), said)
        };
        let line = |entry: &event::EventDescription| CatalogueEntry {
            kind: entry.name.into(),
            description: entry.description.into(),
            detection: entry.detection.into(),
            data: entry.data.iter().map(field).collect(),
        };
        Self {
            events: event::catalogue().iter().map(line).collect(),
            event_types: EventKind::ALL.iter().map(|kind| kind.name().to_owned()).collect(),
        }
    }
}
