//! Routes of recordings and RTMP streams.

use crate::api::api_router::ApiRouter;

pub mod recordings;
pub mod stream;

/// Returns the routes of recordings and streams.
pub fn router<R: ApiRouter>() -> R {
    R::new().merge(recordings::router()).merge(stream::router())
}
