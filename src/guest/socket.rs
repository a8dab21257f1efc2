//! How does the controller open a live channel of a computer? A WebSocket to the agent, its messages bounded.

use axum::http::header;
use serde::Serialize;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::connect::Stream;
use super::{Guest, QUICK, failure, uri, within};
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::socket::{MAX_MESSAGE, READ_AHEAD};

/// A live channel of a computer. Its messages come from the guest: bounded in size, and nothing else is known of them.
pub type Socket = WebSocketStream<Stream>;

/// Bytes that may wait to be written to an agent: one largest message, and a little for control frames.
const MAX_UNWRITTEN: usize = MAX_MESSAGE + 64 * 1024;

impl Guest {
    /// Opens the agent's socket of a path. `query` is a serde struct or a list of pairs.
    ///
    /// # Errors
    /// When the agent cannot be reached or does not accept in time.
    pub async fn socket(&self, path: &str, query: impl Serialize) -> Result<Socket> {
        let address = uri(path, query)?.to_string().replacen("http:", "ws:", 1);
        let mut request = address.into_client_request().map_err(Error::internal)?;
        request.headers_mut().insert(header::AUTHORIZATION, self.bearer.clone());
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_AHEAD)
            .write_buffer_size(READ_AHEAD)
            .max_write_buffer_size(MAX_UNWRITTEN)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        within(QUICK, async {
            let stream = self.connector.connect().await.map_err(|error| failure::unreachable(&error))?;
            let accepted = tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
            accepted.map(|(socket, _)| socket).map_err(|error| failure::unreachable(&error))
        })
        .await
    }
}
