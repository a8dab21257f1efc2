//! Rule for which answers are replayed to a request with the same `Idempotency-Key`.
//!
//! draft-ietf-httpapi-idempotency-key-header-07 section 2.6: "the result of the previously completed
//! operation, success or an error". A request that was refused before it did anything is not a completed
//! operation: its key can be used again.

/// Fate of the `Idempotency-Key` of an answered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayRule {
    /// The request is complete; the answer is replayed.
    Final,
    /// The request was refused and did nothing; the key is free again.
    Refused,
    /// The request was not done and may succeed later. The key is free again, unless the service interrupted
    /// the request.
    Later,
}

/// Returns the rule for an answer with this status. An answer with `Retry-After` is never final: the retry
/// must not get the stored answer for a day.
pub fn replay_rule(status: u16, has_retry_after: bool) -> ReplayRule {
    match status {
        // The same request can be permitted later.
        401 | 403 | 429 => ReplayRule::Refused,
        400.. if has_retry_after => ReplayRule::Later,
        // A failed request may have done part of its work (a resize, for example), so its answer is final.
        _ => ReplayRule::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_replay_rules() {
        for status in [200, 201, 202, 204, 207, 400, 404, 409, 413, 415, 422, 500, 503, 504] {
            assert_eq!(replay_rule(status, false), ReplayRule::Final, "{status}");
        }
        assert_eq!(
            replay_rule(202, true),
            ReplayRule::Final,
            "it was accepted; when to look again is another matter"
        );
        for status in [401, 403, 429] {
            assert_eq!(replay_rule(status, status == 429), ReplayRule::Refused, "{status}");
        }
        for status in [409, 503] {
            assert_eq!(replay_rule(status, true), ReplayRule::Later, "{status}");
        }
    }
}
