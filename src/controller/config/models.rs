//! Settings of the language models that work on computers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::secret_file;
use hotdesk_domain::error::{Error, Result};
use hotdesk_model::RequestLimits;
use hotdesk_model::catalog::{
    BackendDefinition, BackendKind, CatalogDefinition, ModelCatalog, ModelDefinition,
};
use hotdesk_model::prices::Prices;

/// Highest price, in dollars for a million tokens: a hundred times that of any vendor. Costs stay far from
/// overflow.
const MAX_PRICE: f64 = 100_000.0;
/// Millionths of a dollar in a dollar.
const MICRO_DOLLARS: f64 = 1_000_000.0;

/// Language models.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// Name of the model for requests that name none; empty: `claude-sonnet-4.6`, or the only model.
    pub default: String,
    /// Back ends by name; none: `anthropic` without a key, for requests that bring one.
    pub backends: BTreeMap<String, BackendSettings>,
    /// Bounds of requests to back ends; only tests set them.
    #[serde(skip)]
    pub limits: RequestLimits,
}

/// Back end `[models.backends.NAME]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendSettings {
    /// Its API.
    pub kind: BackendApi,
    /// Address of its API, such as `http://192.0.2.7:8000/v1`; empty: the vendor's.
    #[serde(default)]
    pub base_url: String,
    /// File (mode 0600) with the key for requests that bring none; empty: no key.
    #[serde(default)]
    pub key_file: PathBuf,
    /// Whether it needs a key. Not set: whether it is an Anthropic one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_required: Option<bool>,
    /// Whether it gets keys of clients: `x-anthropic-key` and secrets. Not set: whether it is the vendor's
    /// own server. Turns with such a key cost the operator's clients nothing here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_keys: Option<bool>,
    /// Its models by name. None: the Claude models that hotdesk knows, for an Anthropic back end.
    #[serde(default)]
    pub models: BTreeMap<String, BackendModel>,
}

/// API of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendApi {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API, which many servers have.
    Openai,
}

/// Model `[models.backends.NAME.models.NAME]`. Prices are US dollars for a million tokens.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackendModel {
    /// Id at the back end; empty: the name.
    pub id: String,
    /// Tokens of requests.
    pub input: f64,
    /// Tokens of replies.
    pub output: f64,
    /// Tokens of requests that the back end had cached.
    pub cache_read: f64,
    /// Tokens of requests that the back end wrote to its cache.
    pub cache_write: f64,
}

impl ModelSettings {
    /// Reads the keys and makes the catalog.
    ///
    /// # Errors
    /// `Internal` with a sentence that names the setting and the problem.
    pub fn catalog(&self) -> Result<ModelCatalog> {
        let backends = self.backends.iter().map(|(name, backend)| backend.definition(name));
        let definition = CatalogDefinition {
            backends: backends.collect::<Result<_>>()?,
            default: self.default.clone(),
            limits: self.limits,
        };
        ModelCatalog::new(definition)
            .map_err(|error| Error::failed(format!("configuration: [models] {error:#}")))
    }
}

impl BackendSettings {
    fn definition(&self, name: &str) -> Result<BackendDefinition> {
        let kind = match self.kind {
            BackendApi::Anthropic => BackendKind::Anthropic,
            BackendApi::Openai => BackendKind::OpenAi,
        };
        let setting = format!("models.backends.{name}");
        let key = secret_file::read_any(&format!("{setting}.key_file"), &self.key_file)?;
        let models = self.models.iter().map(|(model, settings)| {
            let upstream = if settings.id.is_empty() { model } else { &settings.id };
            let prices = settings
                .prices()
                .map_err(|why| Error::failed(format!("configuration: {setting}.models.{model}: {why}")))?;
            Ok(ModelDefinition { name: model.clone(), upstream: upstream.clone(), prices })
        });
        let url = if self.base_url.is_empty() { kind.vendor_url() } else { &self.base_url };
        Ok(BackendDefinition {
            name: name.to_owned(),
            kind,
            url: url.to_owned(),
            key,
            needs_key: self.key_required.unwrap_or(kind == BackendKind::Anthropic),
            client_keys: self.client_keys.unwrap_or_else(|| kind.is_vendor(url)),
            models: models.collect::<Result<_>>()?,
        })
    }
}

impl BackendModel {
    fn prices(&self) -> Result<Prices, String> {
        let price = |name: &str, dollars: f64| {
            if (0.0..=MAX_PRICE).contains(&dollars) {
                // The range fits; less than a millionth is no price.
                return Ok((dollars * MICRO_DOLLARS).round() as u64);
            }
            Err(format!("{name} = {dollars}: a price is 0 to {MAX_PRICE} dollars for a million tokens"))
        };
        Ok(Prices {
            input: price("input", self.input)?,
            output: price("output", self.output)?,
            cache_read: price("cache_read", self.cache_read)?,
            cache_write: price("cache_write", self.cache_write)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::config::{Config, Flags};
    use hotdesk_base::secret::Secret;
    use hotdesk_model::catalog::ClientKeys;

    /// Reads a configuration as `hotdesk serve` does.
    fn load(folder: &Path, text: &str) -> Result<ModelSettings> {
        let file = folder.join("hotdesk.toml");
        std::fs::write(&file, text).expect("a file");
        Config::load(Some(&file), &Flags::default()).map(|config| config.models)
    }

    #[test]
    fn back_ends_keys_and_prices_come_from_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, "sk-ant-1\n").expect("a key");
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("a mode");
        let text = format!(
            "[models]\ndefault = \"qwen\"\n\
             [models.backends.anthropic]\nkind = \"anthropic\"\nkey_file = {key:?}\n\
             [models.backends.lan]\nkind = \"openai\"\nbase_url = \"http://192.0.2.7:8000/v1\"\n\
             [models.backends.lan.models.qwen]\nid = \"Qwen/Qwen2.5-VL\"\ninput = 0.075\noutput = 3\n\
             [models.backends.lan.models.\"Llama-3.2\"]\n"
        );
        let settings = load(folder.path(), &text).expect("settings");
        let catalog = settings.catalog().expect("a catalog");
        let model = catalog.default_model();
        assert_eq!((model.name.as_str(), model.upstream.as_str()), ("qwen", "Qwen/Qwen2.5-VL"));
        assert_eq!((model.prices.input, model.prices.output), (75_000, 3_000_000));
        assert_eq!(catalog.find("Llama-3-2").map(|model| model.upstream.as_str()), Some("Llama-3.2"));
        for name in ["claude-opus-4.6", "qwen"] {
            let opened = catalog.open(name, &ClientKeys::default()).expect("a model");
            assert!(!opened.has_client_key, "{name}");
        }
        // Only the vendor's own server gets keys of clients, unless the file says otherwise.
        let keys = || ClientKeys { anthropic: Some(Secret::new("k")), openai: Some(Secret::new("k")) };
        let own =
            |name: &str, catalog: &ModelCatalog| catalog.open(name, &keys()).expect("a model").has_client_key;
        assert!(own("claude-opus-4.6", &catalog) && !own("qwen", &catalog));
        let text = text.replace(
            "[models.backends.lan.models.qwen]",
            "client_keys = true\n[models.backends.lan.models.qwen]",
        );
        let catalog = load(folder.path(), &text).expect("settings").catalog().expect("a catalog");
        assert!(own("qwen", &catalog));
        // `hotdesk config` prints it.
        let printed = serde_json::to_string(&settings).expect("JSON");
        assert!(printed.contains("192.0.2.7") && !printed.contains("sk-ant-1"), "{printed}");
    }

    #[test]
    fn wrong_settings_are_refused_with_their_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let readable = folder.path().join("readable");
        std::fs::write(&readable, "sk-ant-1").expect("a key");
        std::fs::set_permissions(&readable, PermissionsExt::from_mode(0o644)).expect("a mode");
        let lan = "[models.backends.lan]\nkind = \"openai\"\n";
        for (text, expected) in [
            ("[models.backends.lan]\nkind = \"gemini\"\n".to_owned(), "gemini"),
            ("[models.backends.lan]\nbase_url = \"http://x\"\n".to_owned(), "kind"),
            (format!("{lan}modells = 1\n"), "modells"),
            (lan.to_owned(), "no models"),
            (format!("{lan}base_url = \"ftp://x\"\n[models.backends.lan.models.m]\n"), "base_url"),
            (format!("{lan}[models.backends.lan.models.m]\ninput = -1.0\n"), "lan.models.m: input = -1"),
            (format!("{lan}[models.backends.lan.models.m]\ninput = nan\n"), "a price is"),
            (format!("{lan}key_file = {readable:?}\n[models.backends.lan.models.m]\n"), "chmod 0600"),
            (format!("[models]\ndefault = \"n\"\n{lan}[models.backends.lan.models.m]\n"), "default \"n\""),
        ] {
            let error = load(folder.path(), &text)
                .and_then(|settings| settings.catalog().map(|_| ()))
                .expect_err("a wrong setting");
            let shown = format!("{error:#}");
            assert!(shown.contains(expected) && !shown.contains("sk-ant-1"), "{text}: {shown}");
        }
        assert!(load(folder.path(), "").and_then(|settings| settings.catalog()).is_ok());
    }
}
