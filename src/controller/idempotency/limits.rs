//! What may the body of a keyed request be? It follows from the document: as much and as slow as without a key, as far as the
//! service's own disk is the place for it.

use std::time::Duration;

use axum::http::HeaderName;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::{Operation, ParameterIn};

use crate::files::{MAX_FORM, UPLOAD_TIMEOUT};
use hotdesk_domain::limits::MAX_STDIN;
use hotdesk_http::extract::{BODY_TIMEOUT, MAX_JSON_BYTES};
use hotdesk_wire::clipboard;

/// Most bytes where a route takes a body of any size: it waits on the service's disk, like a file that is exported. Larger ones
/// go in pieces (tus), each with a key of its own.
pub(super) const MAX_STREAM: u64 = 1024 * 1024 * 1024;
/// How long such a body may take: a gigabyte over a line of 2.4 megabits.
const STREAM_TIMEOUT: Duration = Duration::from_secs(3600);

/// The routes whose bodies are bounded otherwise than others of their media type, by their paths.
const OWN: [(&str, u64); 2] = [
    ("/computers/{id}/clipboard", clipboard::MAX_BODY_BYTES as u64),
    ("/computers/{id}/processes/{process_id}/stdin", MAX_STDIN as u64),
];

/// What an operation takes.
#[derive(Clone, Debug)]
pub(super) struct Takes {
    /// Bytes of the body at most.
    pub(super) most: u64,
    /// How long the body may take to arrive.
    pub(super) patience: Duration,
    /// The body is a form: what counts are its parts, not how they are put together.
    pub(super) form: bool,
    /// The documented header fields, which belong to what is asked (tus has its offsets there).
    pub(super) fields: Vec<HeaderName>,
}

impl Takes {
    /// What the document says of the operation at a path.
    pub(super) fn of(path: &str, operation: &Operation) -> Self {
        let media: Vec<&str> = match &operation.request_body {
            Some(RefOr::T(body)) => body.content.keys().map(String::as_str).collect(),
            Some(RefOr::Ref(_)) | None => Vec::new(),
        };
        let form = media.contains(&"multipart/form-data");
        let (most, patience) = match media.first() {
            _ if form => (MAX_FORM, UPLOAD_TIMEOUT),
            None | Some(&"application/json") => (MAX_JSON_BYTES as u64, BODY_TIMEOUT),
            Some(_) => (MAX_STREAM, STREAM_TIMEOUT),
        };
        let own = OWN.iter().find_map(|(route, most)| (*route == path).then_some(*most));
        Self { most: own.unwrap_or(most), patience, form, fields: fields(operation) }
    }
}

fn fields(operation: &Operation) -> Vec<HeaderName> {
    let fields = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Header => {
            HeaderName::try_from(parameter.name.as_str()).ok()
        }
        RefOr::T(_) | RefOr::Ref(_) => None,
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_body_may_be_follows_from_the_document() {
        let document = crate::api::openapi::document();
        let item = |path: &str| document.paths.paths.get(path).unwrap_or_else(|| panic!("{path} is gone"));
        for (path, operation, most, form) in [
            ("/workspaces", &item("/workspaces").post, 2 << 20, false),
            ("/computers/{id}", &item("/computers/{id}").delete, 2 << 20, false),
            ("/computers/{id}/clipboard", &item("/computers/{id}/clipboard").put, OWN[0].1, false),
            (OWN[1].0, &item(OWN[1].0).post, 17 << 20, false),
            ("/files/upload", &item("/files/upload").post, (10 << 20) + (64 << 10), true),
            ("/computers/{id}/files/content", &item("/computers/{id}/files/content").put, 1 << 30, false),
        ] {
            let takes = Takes::of(path, operation.as_ref().expect("an operation"));
            assert_eq!((takes.most, takes.form), (most, form), "{path}");
        }
        let append = &item("/computers/{id}/files/uploads/{upload_id}").patch;
        let takes = Takes::of("", append.as_ref().expect("an operation"));
        assert!(takes.fields.iter().any(|field| field == "upload-offset"), "{:?}", takes.fields);
        assert_eq!(takes.most, MAX_STREAM);
    }
}
