//! Which answers are told again when a request is sent again with its `Idempotency-Key`?
//!
//! draft-ietf-httpapi-idempotency-key-header-07 section 2.6: "the result of the previously completed operation, success or an
//! error". What was refused before anything was done is no completed operation: its key may be used again.

/// What an answer means for its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It has ended; the answer is told again.
    Final,
    /// Who may not, or not now, has done nothing: the key is free again.
    Refused,
    /// It was not done and may be later. The key is free again, unless the service is what broke it off.
    Later,
}

/// What an answer with this status means. `come_back` is whether it has a `Retry-After`: who is told to come back must not hear
/// the same for a day.
pub fn meaning(status: u16, come_back: bool) -> Meaning {
    match status {
        // That may change while the request stays the same.
        401 | 403 | 429 => Meaning::Refused,
        400.. if come_back => Meaning::Later,
        // A failure may have done something already (a resize that did half), so it is final unless it says otherwise.
        _ => Meaning::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_final_and_what_was_refused_is_not() {
        for status in [200, 201, 202, 204, 207, 400, 404, 409, 413, 415, 422, 500, 503, 504] {
            assert_eq!(meaning(status, false), Meaning::Final, "{status}");
        }
        assert_eq!(
            meaning(202, true),
            Meaning::Final,
            "it was accepted; when to look again is another matter"
        );
        for status in [401, 403, 429] {
            assert_eq!(meaning(status, status == 429), Meaning::Refused, "{status}");
        }
        for status in [409, 503] {
            assert_eq!(meaning(status, true), Meaning::Later, "{status}");
        }
    }
}
