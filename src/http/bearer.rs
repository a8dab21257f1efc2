//! The bearer credential of a request: exactly one `Authorization` field, scheme in any case (A7, A8,
//! docs/authentication-rules.md).

use axum::http::{HeaderMap, header};

/// The content of the `Authorization` field.
#[derive(Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// There is no such field.
    Missing,
    /// One bearer credential.
    Bearer(&'a str),
    /// Several fields, another scheme, or a value that is not visible ASCII.
    Invalid,
}

/// Reads the `Authorization` field of a request.
pub fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = fields.next() else { return Credentials::Missing };
    if fields.next().is_some() {
        return Credentials::Invalid;
    }
    let Ok(text) = first.to_str() else { return Credentials::Invalid };
    match text.split_once(' ') {
        Some((scheme, credential))
            if scheme.eq_ignore_ascii_case("bearer") && !credential.trim().is_empty() =>
        {
            Credentials::Bearer(credential.trim())
        }
        _ => Credentials::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_bearer_counts() {
        let headers = |values: &[&'static str]| {
            let mut map = HeaderMap::new();
            for value in values {
                map.append(header::AUTHORIZATION, axum::http::HeaderValue::from_static(value));
            }
            map
        };
        assert_eq!(credentials(&headers(&[])), Credentials::Missing);
        assert_eq!(credentials(&headers(&["Bearer abc"])), Credentials::Bearer("abc"));
        assert_eq!(credentials(&headers(&["bEaReR  abc "])), Credentials::Bearer("abc"));
        for bad in [&["Bearer a", "Bearer a"][..], &["Basic abc"], &["Bearer"], &["Bearer "], &["abc"], &[""]]
        {
            assert_eq!(credentials(&headers(bad)), Credentials::Invalid, "{bad:?}");
        }
    }
}
