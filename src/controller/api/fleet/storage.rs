//! Download of stored files and screenshots by signed links, without a key (docs/api/files.md).

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde::Deserialize;
use tokio_util::io::ReaderStream;
use uuid::Uuid;

use crate::AppState;
use crate::data_dir::blobs::BlobKind;
use crate::data_dir::disk::failed;
use hotdesk_base::ids::FileId;
use hotdesk_domain::desktop::image;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Path, Query};
use hotdesk_http::untrusted_content::{confine, forbid_caching};

/// Query of a link.
#[derive(Debug, Deserialize)]
pub struct Signature {
    /// Expiry time in Unix seconds.
    #[serde(default)]
    expires: i64,
    /// HMAC-SHA-256 in hex.
    #[serde(default)]
    signature: String,
}

/// `GET /storage/{kind}/{id}/{name}`.
pub async fn fetch(
    State(app): State<AppState>,
    Path((kind, id, _name)): Path<(String, Uuid, String)>,
    Query(proof): Query<Signature>,
) -> Result<Response> {
    let kind = BlobKind::parse(&kind).ok_or_else(|| Error::not_found("Not found"))?;
    if !app.blobs.verify(kind, id, proof.expires, &proof.signature) {
        return Err(Error::forbidden("This link is not valid or has expired").into());
    }
    let gone = || Error::not_found("The file is gone");
    let (content_type, disposition) = match kind {
        BlobKind::Screenshot
        | BlobKind::StepPicture
        | BlobKind::TimelinePicture
        | BlobKind::SnapshotPicture => (String::new(), "inline".to_owned()),
        BlobKind::File => {
            let file = app.store.file(FileId(id)).await?.ok_or_else(gone)?;
            (file.content_type, hotdesk_http::encode::attachment(&file.filename))
        }
    };
    let path = app.blobs.path(kind, id);
    let mut blob = match tokio::fs::File::open(&path).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(gone().into()),
        other => other.map_err(|error| failed("open", &path, &error))?,
    };
    let length = blob.metadata().await.map_err(|error| failed("read", &path, &error))?.len();
    let content_type = match kind {
        BlobKind::Screenshot
        | BlobKind::StepPicture
        | BlobKind::TimelinePicture
        | BlobKind::SnapshotPicture => {
            image_type(&mut blob).await.map_err(|error| failed("read", &path, &error))?.to_owned()
        }
        BlobKind::File => content_type,
    };
    let mut response = Response::new(Body::from_stream(ReaderStream::new(blob)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    for (name, value) in [(header::CONTENT_TYPE, content_type), (header::CONTENT_DISPOSITION, disposition)] {
        headers.insert(name, HeaderValue::from_str(&value).map_err(Error::internal)?);
    }
    confine(headers);
    forbid_caching(headers);
    Ok(response)
}

async fn image_type(blob: &mut tokio::fs::File) -> std::io::Result<&'static str> {
    use tokio::io::{AsyncReadExt, AsyncSeekExt};
    let mut first = Vec::with_capacity(image::MAGIC_BYTES);
    (&mut *blob).take(image::MAGIC_BYTES as u64).read_to_end(&mut first).await?;
    blob.rewind().await?;
    // The blob was an image when it was stored.
    Ok(image::detect_media_type(&first).unwrap_or("application/octet-stream"))
}
