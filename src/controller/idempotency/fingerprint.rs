//! When do two requests ask for the same? Method, path, query, documented header fields and body are the same; of a form its parts,
//! because clients make up another boundary each time that they put one together (RFC 2046 section 5.1.1).

use axum::extract::multipart::MultipartError;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use axum::http::header;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::spool::Spooled;
use super::takes::Takes;
use hotdesk_http::idempotency::digest;

/// The name of what a request asks for.
pub(super) async fn name(parts: &Parts, takes: &Takes, body: &Spooled) -> String {
    let form = if takes.form { form(parts, body).await } else { None };
    let (kind, content) = match form {
        Some(parts) => (b"parts".as_slice(), parts),
        None => (b"bytes".as_slice(), body.digest),
    };
    let fields: Vec<String> = takes
        .fields
        .iter()
        .map(|name| {
            let values: Vec<&[u8]> =
                parts.headers.get_all(name).iter().map(|value| value.as_bytes()).collect();
            digest(&values)
        })
        .collect();
    let query = parts.uri.query().unwrap_or_default();
    let mut asked = vec![parts.method.as_str().as_bytes(), parts.uri.path().as_bytes(), query.as_bytes()];
    asked.extend([kind, &content]);
    asked.extend(fields.iter().map(String::as_bytes));
    digest(&asked)
}

/// The digest of a form's parts; `None` for what is none, which the handler refuses with the reason.
async fn form(parts: &Parts, body: &Spooled) -> Option<[u8; 32]> {
    let mut request = Request::new(body.body());
    request.headers_mut().insert(header::CONTENT_TYPE, parts.headers.get(header::CONTENT_TYPE)?.clone());
    // The body's length was bounded when it was read; else axum's own limit of 2 MB holds.
    DefaultBodyLimit::disable().apply(&mut request);
    let form = Multipart::from_request(request, &()).await.ok()?;
    of_parts(form).await.ok()
}

async fn of_parts(mut form: Multipart) -> Result<[u8; 32], MultipartError> {
    let mut all = Sha256::new();
    while let Some(mut field) = form.next_field().await? {
        let head = [told(field.name()), told(field.file_name()), told(field.content_type())];
        let mut bytes = Sha256::new();
        while let Some(chunk) = field.chunk().await? {
            bytes.update(&chunk);
        }
        let [name, file, kind] = &head;
        // Of one length each, so nothing can pass for two of them.
        all.update(digest(&[name, file, kind, &bytes.finalize()]));
    }
    Ok(all.finalize().into())
}

/// What a part says of itself; nothing is not the same as an empty text.
fn told(text: Option<&str>) -> Vec<u8> {
    text.map_or_else(Vec::new, |text| [b"=".as_slice(), text.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::HeaderName;

    use super::*;
    use crate::idempotent::Spools;
    use crate::storage::Storage;
    use hotdesk_base::ids::AccountId;

    async fn named(takes: &Takes, request: Request) -> String {
        let folder = tempfile::tempdir().unwrap();
        let spools = Spools::new(folder.path().to_owned(), Storage::open(folder.path(), "secret").unwrap());
        let (parts, body) = request.into_parts();
        let spooled = spools.take(body, AccountId::random(), takes).await.unwrap();
        name(&parts, takes, &spooled).await
    }

    fn takes(form: bool) -> Takes {
        let fields = vec![HeaderName::from_static("upload-offset")];
        Takes { most: 1 << 30, patience: Duration::from_secs(30), form, fields }
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
    async fn a_form_is_its_parts_whatever_stands_between_them() {
        let (file, id) = (r#"name="file"; filename="a""#, r#"name="id""#);
        let typed = "name=\"file\"; filename=\"a\"\r\nContent-Type: text/plain";
        let long = "x".repeat(3_000_000);
        let long = long.as_str();
        let form = takes(true);
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
        let bytes = takes(false);
        assert_ne!(
            named(&bytes, sent("one", &[(id, "1")])).await,
            named(&bytes, sent("two", &[(id, "1")])).await
        );
    }

    #[tokio::test]
    async fn what_is_no_form_counts_by_its_bytes() {
        let broken = |boundary: &str, content: &str| {
            let mut request = sent(boundary, &[(r#"name="a""#, "b")]);
            *request.body_mut() = Body::from(content.to_owned());
            request
        };
        let form = takes(true);
        let first = named(&form, broken("one", "--one\r\n")).await;
        assert_eq!(first, named(&form, broken("one", "--one\r\n")).await);
        assert_ne!(first, named(&form, broken("one", "--one\r\nx")).await);
    }

    #[tokio::test]
    async fn documented_fields_belong_to_what_is_asked_and_others_do_not() {
        let with = |fields: &[(&str, &str)]| {
            let mut request = axum::http::Request::patch("/x?y=1");
            for (name, value) in fields {
                request = request.header(*name, *value);
            }
            request.body(Body::from("bytes")).unwrap()
        };
        let bytes = takes(false);
        let first = named(&bytes, with(&[("upload-offset", "0"), ("x-trace", "1")])).await;
        assert_eq!(first, named(&bytes, with(&[("upload-offset", "0"), ("x-trace", "2")])).await);
        assert_ne!(first, named(&bytes, with(&[("upload-offset", "5"), ("x-trace", "1")])).await);
        assert_ne!(first, named(&bytes, with(&[])).await);
    }
}
