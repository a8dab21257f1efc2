//! Reads that do not count as use of a computer (docs/lifecycle.md#auto-stop).

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

use crate::computers::auto_resume::only_looking;

/// Header field of such a read, with the value `true`. Requests that change something count whatever it says.
const FIELD: &str = "x-hotdesk-passive";

/// Middleware that runs the handler of such a read as one.
pub async fn mark(request: Request, next: Next) -> Response {
    if is_passive(&request) { only_looking(next.run(request)).await } else { next.run(request).await }
}

fn is_passive(request: &Request) -> bool {
    request.method().is_safe() && request.headers().get(FIELD).is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Method;

    use super::*;

    #[test]
    fn only_reads_are_passive_and_only_when_they_say_so() {
        for (method, value, expected) in [
            (Method::GET, Some("true"), true),
            (Method::HEAD, Some("true"), true),
            (Method::GET, Some("1"), false),
            (Method::GET, None, false),
            (Method::POST, Some("true"), false),
            (Method::PUT, Some("true"), false),
        ] {
            let mut request = Request::builder().method(&method);
            if let Some(value) = value {
                request = request.header(FIELD, value);
            }
            let request = request.body(Body::empty()).unwrap();
            assert_eq!(is_passive(&request), expected, "{method} {value:?}");
        }
    }
}
