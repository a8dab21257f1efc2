//! Fingerprint of a request: method, path, query, documented header fields and body.
//!
//! Of a form it covers the parts, because clients choose a new boundary each time (RFC 2046 section 5.1.1).

use axum::extract::multipart::MultipartError;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use axum::http::header;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::body_buffer::BufferedBody;
use super::limits::BodyLimits;
use hotdesk_http::idempotency::digest;

/// Returns the fingerprint of a request.
pub(super) async fn fingerprint_of(parts: &Parts, limits: &BodyLimits, body: &BufferedBody) -> String {
    let form = if limits.form { form(parts, body).await } else { None };
    let (kind, content) = match form {
        Some(parts) => (b"parts".as_slice(), parts),
        None => (b"bytes".as_slice(), body.digest),
    };
    let fields: Vec<String> = limits
        .fields
        .iter()
        .map(|name| {
            let values: Vec<&[u8]> =
                parts.headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
            digest(&values)
        })
        .collect();
    let query = parts.uri.query().unwrap_or_default();
    let mut request_parts =
        vec![parts.method.as_str().as_bytes(), parts.uri.path().as_bytes(), query.as_bytes()];
    request_parts.extend([kind, &content]);
    request_parts.extend(fields.iter().map(String::as_bytes));
    digest(&request_parts)
}

/// Returns the digest of a form's parts; `None` for a malformed form, which the handler refuses.
async fn form(parts: &Parts, body: &BufferedBody) -> Option<[u8; 32]> {
    let mut request = Request::new(body.body());
    request.headers_mut().insert(header::CONTENT_TYPE, parts.headers.get(header::CONTENT_TYPE)?.clone());
    // The body's length was checked when it was received. Without this axum's own limit of 2 MB applies.
    DefaultBodyLimit::disable().apply(&mut request);
    let form = Multipart::from_request(request, &()).await.ok()?;
    of_parts(form).await.ok()
}

async fn of_parts(mut form: Multipart) -> Result<[u8; 32], MultipartError> {
    let mut all = Sha256::new();
    while let Some(mut field) = form.next_field().await? {
        let head = [encoded(field.name()), encoded(field.file_name()), encoded(field.content_type())];
        let mut bytes = Sha256::new();
        while let Some(chunk) = field.chunk().await? {
            bytes.update(&chunk);
        }
        let [name, file, kind] = &head;
        // All digests have the same length, so concatenations cannot collide.
        all.update(digest(&[name, file, kind, &bytes.finalize()]));
    }
    Ok(all.finalize().into())
}

/// Encodes an optional text; an absent text differs from an empty one.
fn encoded(text: Option<&str>) -> Vec<u8> {
    text.map_or_else(Vec::new, |text| [b"=".as_slice(), text.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::HeaderName;

    use super::*;
    use crate::data_dir::blobs::BlobStore;
    use crate::idempotency::BodyBuffers;
    use hotdesk_base::ids::AccountId;

    async fn named(limits: &BodyLimits, request: Request) -> String {
        let folder = tempfile::tempdir().unwrap();
        let body_buffers =
            BodyBuffers::new(folder.path().to_owned(), BlobStore::open(folder.path(), "secret").unwrap());
        let (parts, body) = request.into_parts();
        let buffered = body_buffers.receive(body, AccountId::random(), limits).await.unwrap();
        fingerprint_of(&parts, limits, &buffered).await
    }

    fn limits(form: bool) -> BodyLimits {
        let fields = vec![HeaderName::from_static("upload-offset")];
        BodyLimits { most: 1 << 30, timeout: Duration::from_secs(30), form, fields }
    }

    fn sent(boundary: &str, parts: &[(&str, &str)]) -> Request {
        let mut body = String::from("what stands before does not count");
        for (head, content) in parts {
            body.push_str(&format!(
                "\r\n--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}"
            ));
        }
        body.push_str(&format!("\r\n--{boundary}--\r\n"));
        let kind = format!("multipart/form-data; boundary={boundary}");
        axum::http::Request::post("/files/upload")
            .header("content-type", kind)
            .body(Body::from(body))
            .unwrap()
    }

    #[tokio::test]
    async fn a_form_is_compared_by_its_parts() {
        let (file, id) = (r#"name="file"; filename="a""#, r#"name="id""#);
        let typed = "name=\"file\"; filename=\"a\"\r\nContent-Type: text/plain";
        let long = "x".repeat(3_000_000);
        let long = long.as_str();
        let form = limits(true);
        let first = named(&form, sent("one", &[(id, "1"), (file, long)])).await;
        assert_eq!(first, named(&form, sent("another", &[(id, "1"), (file, long)])).await);
        for (what, parts) in [
            ("other bytes", vec![(id, "1"), (file, "x")]),
            ("another value", vec![(id, "2"), (file, long)]),
            ("another order", vec![(file, long), (id, "1")]),
            ("one more", vec![(id, "1"), (file, long), (id, "1")]),
            ("one less", vec![(file, long)]),
            ("a type", vec![(id, "1"), (typed, long)]),
            ("another name", vec![(id, "1"), (r#"name="f"; filename="a""#, long)]),
            ("another file name", vec![(id, "1"), (r#"name="file"; filename="b""#, long)]),
            ("no file name", vec![(id, "1"), (r#"name="file""#, long)]),
        ] {
            assert_ne!(first, named(&form, sent("one", &parts)).await, "{what}");
        }
        // Where a body is bytes, the boundary is of them.
        let bytes = limits(false);
        assert_ne!(
            named(&bytes, sent("one", &[(id, "1")])).await,
            named(&bytes, sent("two", &[(id, "1")])).await
        );
    }

    #[tokio::test]
    async fn a_malformed_form_is_compared_by_its_bytes() {
        let broken = |boundary: &str, content: &str| {
            let mut request = sent(boundary, &[(r#"name="a""#, "b")]);
            *request.body_mut() = Body::from(content.to_owned());
            request
        };
        let form = limits(true);
        let first = named(&form, broken("one", "--one\r\n")).await;
        assert_eq!(first, named(&form, broken("one", "--one\r\n")).await);
        assert_ne!(first, named(&form, broken("one", "--one\r\nx")).await);
    }

    #[tokio::test]
    async fn only_documented_fields_belong_to_the_fingerprint() {
        let with = |fields: &[(&str, &str)]| {
            let mut request = axum::http::Request::patch("/x?y=1");
            for (name, value) in fields {
                request = request.header(*name, *value);
            }
            request.body(Body::from("bytes")).unwrap()
        };
        let bytes = limits(false);
        let first = named(&bytes, with(&[("upload-offset", "0"), ("x-trace", "1")])).await;
        assert_eq!(first, named(&bytes, with(&[("upload-offset", "0"), ("x-trace", "2")])).await);
        assert_ne!(first, named(&bytes, with(&[("upload-offset", "5"), ("x-trace", "1")])).await);
        assert_ne!(first, named(&bytes, with(&[])).await);
    }
}
