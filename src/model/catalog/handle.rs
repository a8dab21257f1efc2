//! Opened model with its key, and reasons for which a model cannot be used.

use std::fmt;
use std::sync::Arc;

use super::{BackendKind, CatalogModel};
use crate::Model;
use hotdesk_base::secret::Secret;

/// Keys of a request, which replace those of the operator. A key reaches only back ends of its API that take
/// keys of clients ([`BackendDefinition::client_keys`](super::BackendDefinition::client_keys)).
#[derive(Clone, Debug, Default)]
pub struct ClientKeys {
    /// Key for Anthropic's API.
    pub anthropic: Option<Secret>,
    /// Key for OpenAI's API.
    pub openai: Option<Secret>,
}

/// A model with its back end and key, ready for requests.
#[derive(Clone)]
pub struct ModelHandle {
    /// The back end.
    pub backend: Arc<dyn Model>,
    /// The model.
    pub model: CatalogModel,
    /// Whether the key is one of the request, so that the operator pays nothing.
    pub has_client_key: bool,
    /// Whether there is no key, and the back end would take one of the client.
    pub wants_client_key: bool,
}

impl fmt::Debug for ModelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelHandle")
            .field("model", &self.model)
            .field("has_client_key", &self.has_client_key)
            .field("wants_client_key", &self.wants_client_key)
            .finish_non_exhaustive()
    }
}

/// Reason for which a model cannot be used. `Display` prints a sentence for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No model has this name.
    UnknownModel {
        /// Names of all models, in the order of the catalog.
        known: Vec<String>,
    },
    /// Neither the request nor the operator has a key.
    MissingKey {
        /// API of the back end.
        kind: BackendKind,
    },
    /// The key has characters that no header can hold.
    InvalidKey,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownModel { known } => {
                write!(f, "This service has no such model. It has: {}.", known.join(", "))
            }
            Self::MissingKey { kind: BackendKind::Anthropic } => f.write_str(
                "The model needs a key, and the operator configured none: send yours in the header \
                 x-anthropic-key, which only servers get that take keys of clients.",
            ),
            Self::MissingKey { kind: BackendKind::OpenAi } => {
                f.write_str("The model needs a key, and the operator configured none.")
            }
            Self::InvalidKey => f.write_str("The key for the model has characters that no key has."),
        }
    }
}

impl std::error::Error for OpenError {}
