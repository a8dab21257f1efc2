//! Definition of a catalog by the operator, and its checks.

use reqwest::Url;

use crate::http::limits::RequestLimits;
use crate::prices::Prices;
use hotdesk_base::secret::Secret;

/// Name of the model for requests that name none, if it is there.
pub(super) const PREFERRED: &str = "claude-sonnet-4.6";
/// Models of an Anthropic back end for which the operator listed none: name, id, prices in cents for a
/// million tokens of input, output, cache reads and cache writes (Anthropic's price list).
const CLAUDE_MODELS: [(&str, &str, Prices); 8] = [
    (PREFERRED, "claude-sonnet-4-6", Prices::in_cents(300, 1500, 30, 375)),
    ("claude-opus-4.6", "claude-opus-4-6", Prices::in_cents(500, 2500, 50, 625)),
    ("claude-opus-4.5", "claude-opus-4-5-20251101", Prices::in_cents(500, 2500, 50, 625)),
    ("claude-opus-4-5-20251101", "claude-opus-4-5-20251101", Prices::in_cents(500, 2500, 50, 625)),
    ("claude-sonnet-4.5", "claude-sonnet-4-5-20250929", Prices::in_cents(300, 1500, 30, 375)),
    ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929", Prices::in_cents(300, 1500, 30, 375)),
    ("claude-haiku-4.5", "claude-haiku-4-5-20251001", Prices::in_cents(100, 500, 10, 125)),
    ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001", Prices::in_cents(100, 500, 10, 125)),
];
/// Longest name of a model or back end, in bytes: those of vendors have less than half.
pub(super) const MAX_NAME: usize = 100;

/// API that a back end has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Chat Completions API.
    OpenAi,
}

impl BackendKind {
    /// Returns the address of the vendor's own server.
    pub const fn vendor_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }

    /// Whether an address is that of the vendor's own server.
    pub fn is_vendor(self, url: &str) -> bool {
        url.trim_end_matches('/') == self.vendor_url()
    }
}

/// A back end, as the operator defines it.
#[derive(Clone, Debug)]
pub struct BackendDefinition {
    /// Name, unique in the catalog.
    pub name: String,
    /// Its API.
    pub kind: BackendKind,
    /// Address, to which the client adds `/v1/messages` (Anthropic) or `/chat/completions` (OpenAI).
    pub url: String,
    /// Key of the operator.
    pub key: Option<Secret>,
    /// Whether requests without a key are refused before they are sent.
    pub needs_key: bool,
    /// Whether it gets keys of clients. Elsewhere they are ignored: a server that takes any key would serve
    /// clients at the operator's cost, and a client's key is for its vendor.
    pub client_keys: bool,
    /// Its models; empty: the Claude models that hotdesk knows, which only an Anthropic back end has.
    pub models: Vec<ModelDefinition>,
}

/// A model, as the operator defines it.
#[derive(Clone, Debug)]
pub struct ModelDefinition {
    /// Name for clients.
    pub name: String,
    /// Id at the back end.
    pub upstream: String,
    /// Its prices.
    pub prices: Prices,
}

/// Everything that a catalog is made of.
#[derive(Clone, Debug, Default)]
pub struct CatalogDefinition {
    /// Back ends; empty: `anthropic` without a key, for requests that bring one.
    pub backends: Vec<BackendDefinition>,
    /// Name of the model for requests that name none; empty: `claude-sonnet-4.6`, or the only model.
    pub default: String,
    /// Bounds of each request.
    pub limits: RequestLimits,
}

pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/".contains(&byte);
    if (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(format!("a name has 1 to {MAX_NAME} letters, digits and -._:/ only"))
}

/// Parses an address to which paths can be added.
pub(super) fn parse_url(text: &str) -> Result<Url, String> {
    let wrong = |why: &str| format!("base_url {text:?}: {why}");
    let url: Url = text.parse().map_err(|_| "base_url is no URL".to_owned())?;
    if !url.username().is_empty() || url.password().is_some() {
        // The text is not repeated: it may hold a password.
        return Err("base_url holds a user name or password: put the key into key_file".to_owned());
    }
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(wrong("use http:// or https:// and a host"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("a path is added to it, so it has no ? and #"));
    }
    Ok(url)
}

pub(super) fn claude_models() -> Vec<ModelDefinition> {
    let models = CLAUDE_MODELS.iter().map(|(name, upstream, prices)| ModelDefinition {
        name: (*name).to_owned(),
        upstream: (*upstream).to_owned(),
        prices: *prices,
    });
    models.collect()
}
