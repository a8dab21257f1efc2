//! Routes of recordings and RTMP streams.

use utoipa_axum::router::OpenApiRouter;

use crate::AppState;

pub mod recordings;
pub mod stream;

/// Returns the routes of recordings and streams.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().merge(recordings::router()).merge(stream::router())
}
