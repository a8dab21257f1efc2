//! Fingerprint of a request: method, path, query, documented header fields and body.
//!
//! Of a form it covers the parts, because clients choose a new boundary each time (RFC 2046 section 5.1.1).

use axum::body::{Body, Bytes};
use axum::extract::multipart::MultipartError;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use axum::http::header;
use axum::http::request::Parts;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::rules::FingerprintRule;
use hotdesk_base::hex::hex;
use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_http::idempotency::digest;

/// Returns the text to store for a request: the HMAC of its fingerprint, because the digest of a body with a
/// short secret could be guessed from a copy of the database.
///
/// # Errors
/// `Internal` when the key is unusable, which never happens: HMAC accepts every length.
pub(super) async fn sealed(
    key: &Secret,
    parts: &Parts,
    rule: &FingerprintRule,
    body: &Bytes,
) -> Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.reveal().as_bytes()).map_err(Error::internal)?;
    mac.update(fingerprint_of(parts, rule, body).await.as_bytes());
    Ok(hex(&mac.finalize().into_bytes()))
}

/// Returns the fingerprint of a request.
async fn fingerprint_of(parts: &Parts, rule: &FingerprintRule, body: &Bytes) -> String {
    let form = if rule.form { form(parts, body).await } else { None };
    let (kind, content) = match form {
        Some(parts) => (b"parts".as_slice(), parts),
        None => (b"bytes".as_slice(), Sha256::digest(body).into()),
    };
    let fields: Vec<String> = rule
        .fields
        .iter()
        .map(|name| {
            let values: Vec<&[u8]> =
                parts.headers.get_all(*name).iter().map(|value| value.as_bytes()).collect();
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
async fn form(parts: &Parts, body: &Bytes) -> Option<[u8; 32]> {
    let mut request = Request::new(Body::from(body.clone()));
    request.headers_mut().insert(header::CONTENT_TYPE, parts.headers.get(header::CONTENT_TYPE)?.clone());
    // The body's length was checked when it was received. Without this axum's own limit of 2 MB applies.
    DefaultBodyLimit::disable().apply(&mut request);
    let form = Multipart::from_request(request, &()).await.ok()?;
    of_parts(form).await.ok()
}

async fn of_parts(mut form: Multipart) -> std::result::Result<[u8; 32], MultipartError> {
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
    use http_body_util::BodyExt;

    use super::*;

    async fn named(rule: &FingerprintRule, request: Request) -> String {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        fingerprint_of(&parts, rule, &body).await
    }

    fn rule(form: bool) -> FingerprintRule {
        FingerprintRule { form, fields: &["upload-offset"] }
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
        let form = rule(true);
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
        let bytes = rule(false);
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
        let form = rule(true);
        let first = named(&form, broken("one", "--one\r\n")).await;
        assert_eq!(first, named(&form, broken("one", "--one\r\n")).await);
        assert_ne!(first, named(&form, broken("one", "--one\r\nx")).await);
    }

    #[tokio::test]
    async fn the_stored_text_depends_on_the_key() {
        let rule = rule(false);
        let (parts, ()) = axum::http::Request::put("/secrets/A").body(()).unwrap().into_parts();
        let body = Bytes::from_static(b"{}");
        let [first, second] = ["one", "two"].map(Secret::new);
        let of_first = sealed(&first, &parts, &rule, &body).await.unwrap();
        assert_eq!(of_first, sealed(&first, &parts, &rule, &body).await.unwrap());
        assert_ne!(of_first, sealed(&second, &parts, &rule, &body).await.unwrap());
        assert_ne!(of_first, fingerprint_of(&parts, &rule, &body).await);
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
        let bytes = rule(false);
        let first = named(&bytes, with(&[("upload-offset", "0"), ("x-trace", "1")])).await;
        assert_eq!(first, named(&bytes, with(&[("upload-offset", "0"), ("x-trace", "2")])).await);
        assert_ne!(first, named(&bytes, with(&[("upload-offset", "5"), ("x-trace", "1")])).await);
        assert_ne!(first, named(&bytes, with(&[])).await);
    }
}
