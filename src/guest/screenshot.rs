//! How does the controller look at a computer's screen? As bytes, with what they show, or "as you have it".

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use bytes::Bytes;

use super::{Guest, QUICK, failure, uri, within};
use hotdesk_domain::error::Result;
use hotdesk_domain::image::media_type;
use hotdesk_http::marks::{IfNoneMatch, Marks};
use hotdesk_wire::screenshot::ScreenshotQuery;

/// Largest image in bytes: an 8K screenshot of noise as PNG is about 100 MB; real ones stay below 20.
pub(super) const MAX_IMAGE: usize = 128 * 1024 * 1024;

/// An image as the agent sent it.
#[derive(Clone, Debug)]
pub struct Image {
    /// The encoded bytes.
    pub bytes: Bytes,
    /// `image/png`, `image/jpeg` or `image/webp`.
    pub mime_type: &'static str,
    /// What it shows; none from an agent that does not say.
    pub marks: Option<Marks>,
}

/// What the agent answered.
#[derive(Clone, Debug)]
pub enum Sight {
    /// The client has the present picture.
    Same(Marks),
    /// Here it is.
    Image(Image),
}

impl Guest {
    /// A screenshot as bytes, unless the client has it; the response format of `query` does not matter.
    ///
    /// # Errors
    /// As [`Guest::call`]; also when what comes is no PNG, JPEG or WebP.
    pub async fn screenshot(&self, query: &ScreenshotQuery, held: &IfNoneMatch) -> Result<Sight> {
        let query = ScreenshotQuery { response_format: Some("binary".to_owned()), ..query.clone() };
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = uri("/screenshot", query)?;
        let asked = held.field();
        if let Some(field) = &asked {
            request.headers_mut().insert(header::IF_NONE_MATCH, field.clone());
        }
        let good = |status: &StatusCode| {
            status.is_success() || (asked.is_some() && *status == StatusCode::NOT_MODIFIED)
        };
        let exchange = async {
            let response = self.exchange(request, good).await?;
            let marks = Marks::read(response.headers());
            if response.status() == StatusCode::NOT_MODIFIED {
                let same = marks.filter(|marks| held.0.contains(&marks.frame));
                return same.map(Sight::Same).ok_or_else(|| failure::nonsense(&"a 304 for no frame of ours"));
            }
            let bytes = self.room.collect(response.into_body(), MAX_IMAGE).await?;
            // The type follows from the bytes, not from what a guest calls them.
            let mime_type = media_type(&bytes).ok_or_else(|| failure::nonsense(&"not an image"))?;
            Ok(Sight::Image(Image { bytes, mime_type, marks }))
        };
        within(QUICK, exchange).await
    }
}
