//! Models by the names that clients use, with their back ends, prices and keys.

mod definition;
mod handle;

pub use definition::{BackendDefinition, BackendKind, CatalogDefinition, ModelDefinition};
pub use handle::{ClientKeys, ModelHandle, OpenError};

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::Model;
use crate::anthropic::AnthropicModel;
use crate::http::limits::RequestLimits;
use crate::http::{EndpointClient, sensitive};
use crate::openai::OpenAiModel;
use crate::prices::Prices;
use definition::{MAX_NAME, PREFERRED, check_name, claude_models, parse_url};
use hotdesk_base::secret::Secret;
use hotdesk_base::step_error::StepError;

/// A model that clients can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogModel {
    /// Name for clients.
    pub name: String,
    /// Name of its back end.
    pub backend: String,
    /// API of its back end, which decides which of a client's keys fits.
    pub kind: BackendKind,
    /// Id at the back end, for [`ModelRequest::model`](crate::conversation::ModelRequest::model).
    pub upstream: String,
    /// Prices.
    pub prices: Prices,
}

/// A back end that is ready for requests.
#[derive(Debug)]
struct Backend {
    kind: BackendKind,
    client: EndpointClient,
    key: Option<Secret>,
    needs_key: bool,
    client_keys: bool,
}

#[derive(Debug)]
struct Entry {
    model: CatalogModel,
    backend: Arc<Backend>,
}

/// All models. A copy shares the connections.
#[derive(Clone, Debug)]
pub struct ModelCatalog {
    inner: Arc<Entries>,
}

#[derive(Debug)]
struct Entries {
    entries: Vec<Entry>,
    /// Positions by the canonical form of a name.
    by_name: HashMap<String, usize>,
    default: usize,
}

impl ModelCatalog {
    /// Makes the catalog of a definition.
    ///
    /// # Errors
    /// A text that names the back end or model and the problem: a name that is invalid or used twice, an
    /// address that is no `http` or `https` one, a back end without models, or a default that no model is.
    pub fn new(definition: CatalogDefinition) -> Result<Self, StepError> {
        let CatalogDefinition { mut backends, default, limits } = definition;
        if backends.is_empty() {
            backends.push(BackendDefinition {
                name: "anthropic".to_owned(),
                kind: BackendKind::Anthropic,
                url: BackendKind::Anthropic.vendor_url().to_owned(),
                key: None,
                needs_key: true,
                client_keys: true,
                models: Vec::new(),
            });
        }
        let (mut entries, mut by_name) = (Vec::new(), HashMap::new());
        for definition in backends {
            let name = definition.name.clone();
            let wrong = |why: &dyn fmt::Display| StepError::new(format!("back end {name:?}: {why}"));
            check_name(&name).map_err(|why| wrong(&why))?;
            let (backend, models) = open(definition, limits).map_err(|why| wrong(&why))?;
            let backend = Arc::new(backend);
            for model in models {
                check_name(&model.name)
                    .map_err(|why| wrong(&format_args!("model {:?}: {why}", model.name)))?;
                if by_name.insert(canonical(&model.name), entries.len()).is_some() {
                    let why = "another model has the same name; dots and hyphens are equal";
                    return Err(wrong(&format_args!("model {:?}: {why}", model.name)));
                }
                let ModelDefinition { name: model, upstream, prices } = model;
                let kind = backend.kind;
                let model = CatalogModel { name: model, backend: name.clone(), kind, upstream, prices };
                entries.push(Entry { model, backend: Arc::clone(&backend) });
            }
        }
        let default = default_of(&default, &by_name, &entries)?;
        Ok(Self { inner: Arc::new(Entries { entries, by_name, default }) })
    }

    /// Returns all models, in the order of their back ends.
    pub fn models(&self) -> impl Iterator<Item = &CatalogModel> {
        self.inner.entries.iter().map(|entry| &entry.model)
    }

    /// Returns the model for requests that name none.
    pub fn default_model(&self) -> &CatalogModel {
        &self.inner.entries[self.inner.default].model
    }

    /// Returns the model of a name. Dots and hyphens are equal: `claude-sonnet-4-6` is `claude-sonnet-4.6`.
    pub fn find(&self, name: &str) -> Option<&CatalogModel> {
        self.entry(name).map(|entry| &entry.model)
    }

    /// Opens the model of a name for requests with a key of the client's or else the operator's.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self, name: &str, keys: &ClientKeys) -> Result<ModelHandle, OpenError> {
        let entry = self.entry(name).ok_or_else(|| OpenError::UnknownModel {
            known: self.models().map(|model| model.name.clone()).collect(),
        })?;
        let Backend { kind, client, key, needs_key, client_keys } = &*entry.backend;
        let own = match kind {
            BackendKind::Anthropic => keys.anthropic.as_ref(),
            BackendKind::OpenAi => keys.openai.as_ref(),
        };
        let own = own.filter(|_| *client_keys);
        let key = own.or(key.as_ref());
        if key.is_none() && *needs_key {
            return Err(OpenError::MissingKey { kind: *kind });
        }
        let header =
            |prefix: &str| key.map(|key| sensitive(prefix, key).ok_or(OpenError::InvalidKey)).transpose();
        let backend: Arc<dyn Model> = match kind {
            BackendKind::Anthropic => Arc::new(AnthropicModel::new(client.clone(), header("")?)),
            BackendKind::OpenAi => Arc::new(OpenAiModel::new(client.clone(), header("Bearer ")?)),
        };
        Ok(ModelHandle {
            backend,
            model: entry.model.clone(),
            has_client_key: own.is_some(),
            wants_client_key: key.is_none() && *client_keys,
        })
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        if name.len() > MAX_NAME {
            return None;
        }
        self.inner.by_name.get(&canonical(name)).map(|at| &self.inner.entries[*at])
    }
}

/// Returns the form in which names are compared.
fn canonical(name: &str) -> String {
    name.replace('.', "-")
}

/// Makes a back end and returns it with its models.
fn open(
    definition: BackendDefinition,
    limits: RequestLimits,
) -> Result<(Backend, Vec<ModelDefinition>), String> {
    let BackendDefinition { name: _, kind, url, key, needs_key, client_keys, models } = definition;
    let base = parse_url(&url)?;
    let (endpoint, models) = match kind {
        BackendKind::Anthropic if models.is_empty() => (AnthropicModel::endpoint(&base), claude_models()),
        BackendKind::Anthropic => (AnthropicModel::endpoint(&base), models),
        BackendKind::OpenAi if models.is_empty() => {
            return Err("it has no models: name at least one".to_owned());
        }
        BackendKind::OpenAi => (OpenAiModel::endpoint(&base), models),
    };
    if let Some(model) = models.iter().find(|model| model.upstream.trim().is_empty()) {
        return Err(format!("model {:?}: its id is empty", model.name));
    }
    let client = EndpointClient::new(endpoint, limits);
    Ok((Backend { kind, client, key, needs_key, client_keys }, models))
}

/// Returns the position of the default model.
fn default_of(name: &str, by_name: &HashMap<String, usize>, entries: &[Entry]) -> Result<usize, StepError> {
    let names = || entries.iter().map(|entry| entry.model.name.as_str()).collect::<Vec<_>>().join(", ");
    if !name.is_empty() {
        let found = by_name.get(&canonical(name)).copied();
        return found.ok_or_else(|| {
            StepError::new(format!("default {name:?} is no model; the models are: {}", names()))
        });
    }
    match (by_name.get(&canonical(PREFERRED)), entries.len()) {
        (Some(at), _) => Ok(*at),
        (None, 1) => Ok(0),
        (None, _) => {
            Err(StepError::new(format!("default is empty: set it to one of the models: {}", names())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(name: &str, kind: BackendKind, url: &str, models: &[&str]) -> BackendDefinition {
        let models = models.iter().map(|name| ModelDefinition {
            name: (*name).to_owned(),
            upstream: format!("vendor/{name}"),
            prices: Prices::default(),
        });
        BackendDefinition {
            name: name.to_owned(),
            kind,
            url: url.to_owned(),
            key: None,
            needs_key: kind == BackendKind::Anthropic,
            client_keys: true,
            models: models.collect(),
        }
    }

    fn catalog(backends: Vec<BackendDefinition>, default: &str) -> Result<ModelCatalog, String> {
        let default = default.to_owned();
        let definition = CatalogDefinition { backends, default, limits: RequestLimits::default() };
        ModelCatalog::new(definition).map_err(String::from)
    }

    #[test]
    fn without_settings_claude_models_need_a_key_of_the_request() {
        let catalog = catalog(Vec::new(), "").expect("a catalog");
        assert_eq!(catalog.default_model().name, "claude-sonnet-4.6");
        for (name, upstream) in [
            ("claude-sonnet-4.6", "claude-sonnet-4-6"),
            ("claude-sonnet-4-6", "claude-sonnet-4-6"),
            ("claude-opus-4-6", "claude-opus-4-6"),
            ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929"),
            ("claude-sonnet-4.5", "claude-sonnet-4-5-20250929"),
        ] {
            assert_eq!(catalog.find(name).map(|model| model.upstream.as_str()), Some(upstream), "{name}");
        }
        let missing = catalog.open("claude-opus-4.6", &ClientKeys::default()).expect_err("no key");
        assert_eq!(missing, OpenError::MissingKey { kind: BackendKind::Anthropic });
        assert!(missing.to_string().contains("x-anthropic-key"));
        let keys = ClientKeys { anthropic: Some(Secret::new("sk-ant-1")), openai: None };
        let opened = catalog.open("claude-opus-4.6", &keys).expect("a model");
        assert!(opened.has_client_key && opened.model.prices.output == 25_000_000);
        assert!(!format!("{opened:?} {keys:?}").contains("sk-ant-1"));
        let keys = ClientKeys { anthropic: Some(Secret::new("a\nb")), openai: None };
        assert_eq!(catalog.open("claude-opus-4.6", &keys).expect_err("no header"), OpenError::InvalidKey);
        for name in ["", "gpt", "claude-sonnet-4.6 ", "Claude-sonnet-4.6", &"x".repeat(10_000)] {
            let error = catalog.open(name, &keys).expect_err("no model");
            assert!(matches!(error, OpenError::UnknownModel { .. }) && error.to_string().contains("opus"));
        }
    }

    #[test]
    fn a_key_reaches_only_back_ends_of_its_api() {
        let url = "http://127.0.0.1:8000/v1";
        let (one, two) = (
            backend("a", BackendKind::Anthropic, url, &["a"]),
            backend("o", BackendKind::OpenAi, url, &["o"]),
        );
        let two = BackendDefinition { needs_key: true, ..two };
        let catalog = catalog(vec![one, two], "o").expect("a catalog");
        let anthropic = ClientKeys { anthropic: Some(Secret::new("k")), openai: None };
        let openai = ClientKeys { anthropic: None, openai: Some(Secret::new("k")) };
        assert!(catalog.open("a", &anthropic).is_ok() && catalog.open("o", &openai).is_ok());
        let error = catalog.open("o", &anthropic).expect_err("another vendor's key");
        assert_eq!(error, OpenError::MissingKey { kind: BackendKind::OpenAi });
        assert!(catalog.open("a", &openai).is_err());
    }

    #[test]
    fn a_server_that_takes_no_keys_of_clients_gets_the_operators() {
        let url = "http://127.0.0.1:8000/v1";
        let keys = ClientKeys { anthropic: Some(Secret::new("junk")), openai: Some(Secret::new("junk")) };
        for kind in [BackendKind::Anthropic, BackendKind::OpenAi] {
            for (client_keys, key, needs_key, expected) in [
                (false, Some("operator"), true, Some((false, false))),
                (false, None, false, Some((false, false))),
                (false, None, true, None),
                (true, Some("operator"), true, Some((true, false))),
                (true, None, true, Some((true, false))),
            ] {
                let one = BackendDefinition {
                    client_keys,
                    needs_key,
                    key: key.map(Secret::new),
                    ..backend("b", kind, url, &["m"])
                };
                let opened = catalog(vec![one], "m").expect("a catalog").open("m", &keys).ok();
                let found = opened.map(|model| (model.has_client_key, model.wants_client_key));
                assert_eq!(found, expected, "{kind:?} {client_keys} {key:?} {needs_key}");
            }
            let one = BackendDefinition { needs_key: false, ..backend("b", kind, url, &["m"]) };
            let opened = catalog(vec![one], "m").expect("a catalog").open("m", &ClientKeys::default());
            assert!(opened.expect("a model").wants_client_key, "{kind:?}");
            assert!(kind.is_vendor(&format!("{}/", kind.vendor_url())) && !kind.is_vendor(url));
        }
    }

    #[test]
    fn wrong_definitions_are_refused_with_the_place() {
        use BackendKind::{Anthropic, OpenAi};
        let url = "https://models.example.org/v1";
        let refused = |backends: Vec<BackendDefinition>, default: &str| {
            catalog(backends, default).err().unwrap_or_default()
        };
        for (backends, default, expected) in [
            (vec![backend("o", OpenAi, url, &[])], "", "no models"),
            (vec![backend("o o", OpenAi, url, &["m"])], "", "\"o o\": a name"),
            (vec![backend("o", OpenAi, url, &["m m"])], "", "\"m m\": a name"),
            (vec![backend("o", OpenAi, url, &[""])], "", "a name"),
            (vec![backend("o", OpenAi, url, &["m.1"]), backend("p", OpenAi, url, &["m-1"])], "", "same name"),
            (vec![backend("o", OpenAi, url, &["m", "n"])], "", "one of the models: m, n"),
            (vec![backend("o", OpenAi, url, &["m"])], "n", "the models are: m"),
            (vec![backend("o", OpenAi, "ftp://x", &["m"])], "", "use http://"),
            (vec![backend("o", OpenAi, "models", &["m"])], "", "no URL"),
            (vec![backend("o", OpenAi, "unix:/run/x", &["m"])], "", "use http://"),
            (vec![backend("o", OpenAi, "https://x/?a=b", &["m"])], "", "no ? and #"),
            (vec![backend("o", OpenAi, "https://u:pw@x/", &["m"])], "", "key_file"),
        ] {
            let error = refused(backends, default);
            assert!(error.contains(expected) && !error.contains("pw"), "{expected}: {error}");
        }
        assert_eq!(refused(vec![backend("o", OpenAi, "http://10.0.0.5:8000/v1", &["m"])], ""), "");
        assert_eq!(refused(vec![backend("a", Anthropic, url, &[])], ""), "");
        let mut nameless = backend("o", OpenAi, url, &["m"]);
        nameless.models[0].upstream = " ".to_owned();
        assert!(refused(vec![nameless], "").contains("id is empty"));
    }

    #[test]
    fn endpoints_are_below_the_address() {
        let of = |url: &str| url.parse().expect("a URL");
        for (kind, base, endpoint) in [
            (BackendKind::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            (BackendKind::Anthropic, "http://x:1/gateway/", "http://x:1/gateway/v1/messages"),
            (BackendKind::OpenAi, "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            (BackendKind::OpenAi, "http://[::1]:11434/v1/", "http://[::1]:11434/v1/chat/completions"),
        ] {
            let url = match kind {
                BackendKind::Anthropic => AnthropicModel::endpoint(&of(base)),
                BackendKind::OpenAi => OpenAiModel::endpoint(&of(base)),
            };
            assert_eq!(url.as_str(), endpoint);
        }
    }
}
