//! Which credential does a request show? Exactly one `Authorization: Bearer`, scheme in any case (access.md A7, A8).

use axum::http::{HeaderMap, header};

/// What the `Authorization` field holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown<'a> {
    /// No such field.
    Nothing,
    /// One bearer credential.
    Bearer(&'a str),
    /// Several fields, another scheme, or an unreadable value.
    Unusable,
}

/// Reads the credential of a request.
pub fn shown(headers: &HeaderMap) -> Shown<'_> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = fields.next() else { return Shown::Nothing };
    if fields.next().is_some() {
        return Shown::Unusable;
    }
    let Ok(text) = first.to_str() else { return Shown::Unusable };
    match text.split_once(' ') {
        Some((scheme, credential))
            if scheme.eq_ignore_ascii_case("bearer") && !credential.trim().is_empty() =>
        {
            Shown::Bearer(credential.trim())
        }
        _ => Shown::Unusable,
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
        assert_eq!(shown(&headers(&[])), Shown::Nothing);
        assert_eq!(shown(&headers(&["Bearer abc"])), Shown::Bearer("abc"));
        assert_eq!(shown(&headers(&["bEaReR  abc "])), Shown::Bearer("abc"));
        for bad in [&["Bearer a", "Bearer a"][..], &["Basic abc"], &["Bearer"], &["Bearer "], &["abc"], &[""]]
        {
            assert_eq!(shown(&headers(bad)), Shown::Unusable, "{bad:?}");
        }
    }
}
