//! The operator's provider: its metadata, the redirect to it, and the exchange of a code (OpenID Connect Core 1.0,
//! Discovery 1.0).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::Mutex;

use super::fetch::{ProviderClient, RequestCredentials, unanswered};
use super::id_token::{self, Claims, ExpectedToken, KeySet};
use crate::config::{OidcSettings, secret_file};
use hotdesk_base::clock;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};

/// Time for which metadata is used before it is read again. Anybody may begin a sign-in, and each beginning needs the
/// metadata: without a cache the provider would get a request for each.
const METADATA_LIFE: Duration = Duration::from_secs(600);
/// Requested scope: the id of the person, and the address. Nothing else is used.
const SCOPE: &str = "openid email";

/// Provider, as configured.
#[derive(Debug)]
pub struct Provider {
    /// Its issuer.
    pub issuer: String,
    /// Its name on pages.
    pub name: String,
    client_id: String,
    client_secret: Option<Secret>,
    client: ProviderClient,
    metadata: Mutex<Option<(Arc<Metadata>, Instant)>>,
}

/// Metadata of the provider (Discovery section 3).
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    userinfo_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Values to which one request to the provider is bound.
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationValues<'a> {
    /// Where the provider leads the browser back to.
    pub redirect_uri: &'a str,
    /// Value that the answer repeats.
    pub state: &'a Secret,
    /// Value that the ID token repeats.
    pub nonce: &'a Secret,
    /// Verifier of the challenge (RFC 7636).
    pub verifier: &'a Secret,
}

/// Tokens of a person.
#[derive(Debug, Deserialize)]
struct Tokens {
    id_token: Secret,
    #[serde(default)]
    access_token: Option<Secret>,
}

/// Person whom the provider has authenticated.
#[derive(Debug)]
pub struct AuthenticatedPerson {
    /// Verified claims.
    pub claims: Claims,
    access_token: Option<Secret>,
}

impl Provider {
    /// Returns the provider of a configuration; `None` when none is configured.
    ///
    /// # Errors
    /// `Internal` with a text that names the setting, the value and the problem.
    pub fn open(settings: &OidcSettings) -> Result<Option<Self>> {
        if settings.issuer.is_empty() {
            return Ok(None);
        }
        if settings.client_id.is_empty() {
            return Err(Error::failed(
                "configuration: oidc.client_id is empty: set the id of this service at the provider",
            ));
        }
        Ok(Some(Self {
            client: ProviderClient::new(&settings.issuer)?,
            issuer: settings.issuer.clone(),
            name: settings.name.clone(),
            client_id: settings.client_id.clone(),
            client_secret: secret_file::read_any("oidc.client_secret_file", &settings.client_secret_file)?,
            metadata: Mutex::default(),
        }))
    }

    /// Returns the address at the provider to which a browser is sent.
    ///
    /// # Errors
    /// `Unavailable` when the provider's metadata cannot be read.
    pub async fn authorization_url(
        &self,
        values: &AuthorizationValues<'_>,
        challenge: &str,
    ) -> Result<String> {
        let metadata = self.metadata().await?;
        let mut url = self.client.endpoint(&metadata.authorization_endpoint)?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", values.redirect_uri)
            .append_pair("scope", SCOPE)
            .append_pair("state", values.state.reveal())
            .append_pair("nonce", values.nonce.reveal())
            .append_pair("code_challenge", challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Exchanges a code for the person whom the provider has authenticated.
    ///
    /// # Errors
    /// `Unavailable` when the provider refuses the code, does not answer, or sends an ID token that is not valid.
    pub async fn exchange(
        &self,
        code: &Secret,
        values: &AuthorizationValues<'_>,
    ) -> Result<AuthenticatedPerson> {
        let metadata = self.metadata().await?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code.reveal()),
            ("redirect_uri", values.redirect_uri),
            ("code_verifier", values.verifier.reveal()),
        ];
        let credentials = match &self.client_secret {
            Some(secret) if metadata.takes_basic() => RequestCredentials::Basic(&self.client_id, secret),
            Some(secret) => {
                form.extend([("client_id", self.client_id.as_str()), ("client_secret", secret.reveal())]);
                RequestCredentials::InBody
            }
            None => {
                form.push(("client_id", &self.client_id));
                RequestCredentials::InBody
            }
        };
        let tokens: Tokens = self.client.post(&metadata.token_endpoint, &form, credentials).await?;
        // Read at each sign-in, so that new keys of the provider need no special case.
        let keys: KeySet = self.client.get(&metadata.jwks_uri, None).await?;
        let expected = ExpectedToken {
            issuer: &self.issuer,
            client_id: &self.client_id,
            nonce: values.nonce,
            now: clock::now(),
        };
        let verified = id_token::verify(tokens.id_token.reveal(), &keys, &expected);
        let claims = verified.map_err(|why| unanswered(format_args!("the ID token is not valid: {why}")))?;
        Ok(AuthenticatedPerson { claims, access_token: tokens.access_token })
    }

    /// Returns the person's address, if the provider has verified it. Providers that leave it out of the ID token have
    /// it at their userinfo endpoint.
    ///
    /// # Errors
    /// `Unavailable` when that endpoint does not answer, or speaks of another person.
    pub async fn verified_email(&self, person: &AuthenticatedPerson) -> Result<Option<String>> {
        if person.claims.email.is_some() {
            return Ok(person.claims.verified_email().map(str::to_owned));
        }
        let metadata = self.metadata().await?;
        let (Some(url), Some(token)) = (&metadata.userinfo_endpoint, &person.access_token) else {
            return Ok(None);
        };
        let claims: Claims = self.client.get(url, Some(token)).await?;
        // OpenID Connect Core section 5.3.2.
        if claims.sub != person.claims.sub {
            return Err(unanswered("the userinfo endpoint speaks of another person"));
        }
        Ok(claims.verified_email().map(str::to_owned))
    }

    /// Returns the metadata. One request reads it at a time; others wait for it.
    async fn metadata(&self) -> Result<Arc<Metadata>> {
        let mut cached = self.metadata.lock().await;
        if let Some((metadata, since)) = &*cached
            && since.elapsed() < METADATA_LIFE
        {
            return Ok(Arc::clone(metadata));
        }
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let metadata: Metadata = self.client.get(&url, None).await?;
        // Discovery section 4.3: else one provider could speak for another.
        if metadata.issuer != self.issuer {
            return Err(unanswered(format_args!(
                "its issuer is {:?}, and oidc.issuer is {:?}",
                metadata.issuer, self.issuer
            )));
        }
        let metadata = Arc::new(metadata);
        *cached = Some((Arc::clone(&metadata), Instant::now()));
        Ok(metadata)
    }
}

impl Metadata {
    /// Whether the provider takes the secret in `Authorization`, which is the default (Discovery section 3).
    fn takes_basic(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_ref();
        methods.is_none_or(|methods| methods.iter().any(|method| method == "client_secret_basic"))
    }
}
