//! WebSockets to an agent, with limits on its messages.

use serde::Serialize;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::connect::Stream;
use super::{Guest, QUICK_TIMEOUT, failure, uri, within};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::socket::{MAX_MESSAGE, READ_AHEAD};

/// A WebSocket to an agent. Its messages have a size limit but are otherwise untrusted.
pub type Socket = WebSocketStream<Stream>;

/// Largest write buffer, in bytes: one largest message, and 64 KiB for control frames.
const MAX_WRITE_BUFFER: usize = MAX_MESSAGE + 64 * 1024;

impl Guest {
    /// Opens the agent's WebSocket at a path. `query` is a serde struct or a list of pairs.
    ///
    /// # Errors
    /// `Unavailable` when the agent cannot be reached or refuses the upgrade; `TimedOut` after 15 s.
    pub async fn socket(&self, path: &str, query: impl Serialize) -> Result<Socket> {
        let address = uri(path, query)?.to_string().replacen("http:", "ws:", 1);
        let mut request = address.into_client_request().map_err(Error::internal)?;
        self.authorize(request.headers_mut());
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_AHEAD)
            .write_buffer_size(READ_AHEAD)
            .max_write_buffer_size(MAX_WRITE_BUFFER)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        within(QUICK_TIMEOUT, async {
            let stream = self.connector.connect().await.map_err(|error| failure::unreachable(&error))?;
            let accepted = tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
            accepted.map(|(socket, _)| socket).map_err(|error| failure::unreachable(&error))
        })
        .await
    }
}
