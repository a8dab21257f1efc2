//! Operations with a rule of their own: whose responses an agent stores, and whose requests have a form or
//! header fields. They follow from the OpenAPI document, which the program does not read: a test compares them.

use axum::http::Method;

/// Actions and commands, below the path of a computer: the computer's agent stores their responses.
const STORED_BY_AGENT: [&str; 16] = [
    "actions",
    "bash",
    "click",
    "drag",
    "exec",
    "key",
    "key_down",
    "key_up",
    "mouse_down",
    "mouse_up",
    "move",
    "scroll",
    "type",
    "wait",
    "wait_change",
    "wait_stable",
];

/// Operations with a form.
static FORMS: [(Method, &str); 1] = [(Method::POST, "/files/upload")];

/// Operations with documented header fields, and the fields.
static HEADER_FIELDS: [(Method, &str, &[&str]); 6] = [
    (Method::POST, "/billing/webhook", &["hotdesk-signature"]),
    (Method::PUT, "/computers/{id}/files/content", &["if-match"]),
    (Method::POST, "/computers/{id}/files/uploads", &["tus-resumable", "upload-length", "upload-metadata"]),
    (Method::PATCH, "/computers/{id}/files/uploads/{upload_id}", &["tus-resumable", "upload-offset"]),
    (Method::DELETE, "/computers/{id}/files/uploads/{upload_id}", &["tus-resumable"]),
    (Method::POST, "/v1/chat/completions", &["x-anthropic-key"]),
];

/// Whether the computer's agent stores the responses of an operation.
pub(super) fn is_stored_by_agent(method: &Method, path: &str) -> bool {
    let below = path.strip_prefix("/computers/{id}/");
    method == Method::POST && below.is_some_and(|action| STORED_BY_AGENT.contains(&action))
}

/// Parts of an operation's requests that the fingerprint covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FingerprintRule {
    /// Whether the body is a form, whose parts are compared instead of its bytes.
    pub(super) form: bool,
    /// Documented header fields, such as the offset of tus, in lower case.
    pub(super) fields: &'static [&'static str],
}

impl FingerprintRule {
    /// Returns the rule of an operation.
    pub(super) fn of(method: &Method, path: &str) -> Self {
        let form = FORMS.iter().any(|(its_method, its_path)| its_method == method && *its_path == path);
        let row =
            HEADER_FIELDS.iter().find(|(its_method, its_path, _)| its_method == method && *its_path == path);
        Self { form, fields: row.map(|(_, _, fields)| *fields).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use utoipa::openapi::RefOr;
    use utoipa::openapi::path::{Operation, ParameterIn};
    use utoipa_axum::router::OpenApiRouter;

    use super::*;
    use crate::AppState;
    use crate::api::api_router::ServedRoutes;
    use crate::api::idempotency::{CHANGING_METHODS, changing, names_a_key};

    fn has_form(operation: &Operation) -> bool {
        match &operation.request_body {
            Some(RefOr::T(body)) => body.content.contains_key("multipart/form-data"),
            Some(RefOr::Ref(_)) | None => false,
        }
    }

    /// Names of the header fields of an operation, in lower case.
    fn header_fields(operation: &Operation) -> Vec<String> {
        let fields = operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
            RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Header => {
                Some(parameter.name.to_ascii_lowercase())
            }
            RefOr::T(_) | RefOr::Ref(_) => None,
        });
        fields.collect()
    }

    #[test]
    fn rules_are_those_of_the_documented_operations() {
        // As the handlers describe them: without the parameters that the complete document adds.
        let document = crate::api::documented::<OpenApiRouter<AppState>>().into_openapi();
        let mut documented = BTreeSet::new();
        let (mut stored_by_agent, mut forms, mut with_fields) = (0, 0, 0);
        for (path, item) in &document.paths.paths {
            for (method, operation) in changing(item) {
                documented.insert(format!("{method} {path}"));
                let is_stored_by_agent = is_stored_by_agent(&method, path);
                assert_eq!(is_stored_by_agent, names_a_key(operation), "STORED_BY_AGENT: {method} {path}");
                stored_by_agent += usize::from(is_stored_by_agent);
                if is_stored_by_agent {
                    continue;
                }
                let rule = FingerprintRule::of(&method, path);
                assert_eq!(rule.form, has_form(operation), "FORMS: {method} {path}");
                assert_eq!(rule.fields, header_fields(operation), "HEADER_FIELDS: {method} {path}");
                forms += usize::from(rule.form);
                with_fields += usize::from(!rule.fields.is_empty());
            }
        }
        let rows = (STORED_BY_AGENT.len(), FORMS.len(), HEADER_FIELDS.len());
        assert_eq!((stored_by_agent, forms, with_fields), rows, "rows of operations that are gone");
        let (_, served) = crate::api::documented::<ServedRoutes>().into_parts();
        let served = served.into_iter().filter(|(method, _)| CHANGING_METHODS.contains(method));
        let served: BTreeSet<String> = served.map(|(method, path)| format!("{method} {path}")).collect();
        assert_eq!(served, documented);
    }
}
