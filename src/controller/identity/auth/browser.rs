//! Marks by which a person recognizes a signed-in browser: its `User-Agent` field and its address.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header;
use axum::http::request::Parts;

use crate::App;
use crate::web::source;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::HttpError;
use hotdesk_http::serve::Peer;

/// Characters of `User-Agent` that are stored. Browsers send up to about 200; a client may send anything.
const MAX_USER_AGENT: usize = 256;

/// Browser that signs in.
#[derive(Clone, Debug)]
pub struct BrowserDescription {
    /// Its `User-Agent` field, cut to [`MAX_USER_AGENT`]; `None` when it sends none.
    pub user_agent: Option<String>,
    /// Its IP address, behind any trusted proxies; `None` for a process on this host that used a Unix socket.
    pub address: Option<IpAddr>,
}

impl FromRequestParts<Arc<App>> for BrowserDescription {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, HttpError> {
        let peer = parts.extensions.get::<ConnectInfo<Peer>>();
        let ConnectInfo(peer) = peer.ok_or_else(|| Error::internal("a request without a peer"))?;
        let address = source::address(&app.trusted_proxies, peer, &parts.headers);
        let user_agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let user_agent = user_agent.map(|text| text.chars().take(MAX_USER_AGENT).collect());
        Ok(Self { user_agent, address })
    }
}
