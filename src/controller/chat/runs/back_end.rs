//! Choice of the model of a run, its prices, and its failures as errors of the API.

use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_model::catalog::{ModelCatalog, OpenModel};
use hotdesk_model::conversation::Usage;
use hotdesk_model::{ModelError, ModelErrorKind};

/// Model of a request that names none (docs/api/chat.md).
pub const DEFAULT_MODEL: &str = "claude-sonnet-4.6";
/// Hundred-millionths of a dollar (micro-cents) in a cent.
const MICROCENTS: f64 = 1_000_000.0;
/// Seconds after which a client may retry when the back end failed before the run did anything.
const RETRY_SECONDS: u32 = 5;

/// Opens the model of a request. `key` is the key of the request for its back end.
///
/// # Errors
/// `Invalid` (`invalid_model`) when there is no such model; those of [`failure`].
pub fn open(catalog: &ModelCatalog, name: Option<&str>, key: Option<Secret>) -> Result<OpenModel> {
    catalog.open(name.unwrap_or(DEFAULT_MODEL), key).map_err(|error| failure(&error, 0))
}

/// Names of all models.
pub fn names(catalog: &ModelCatalog) -> Vec<String> {
    catalog.list()
}

/// Cost of tokens, in millionths of a cent. Fractions are rounded up, so that no turn is free by rounding.
pub fn cost_microcents(model: &OpenModel, usage: &Usage) -> i64 {
    let cost = (model.cost(usage) * MICROCENTS).ceil();
    // A float that is out of range or not a number becomes the nearest number or 0.
    (cost as i64).max(0)
}

/// Converts a failure of a back end. A run that has executed `steps` calls is never announced as safe to repeat:
/// its error has no `Retry-After`, and no status that clients retry by themselves with an `Idempotency-Key`.
pub fn failure(error: &ModelError, steps: u32) -> Error {
    let message = error.message.clone();
    let failed = match error.kind {
        ModelErrorKind::Unauthorized => Error::invalid(message).code(ErrorCode::ModelKeyRefused),
        ModelErrorKind::RateLimited { retry_after } if steps == 0 => {
            let seconds = retry_after.map_or(RETRY_SECONDS, |it| u32::try_from(it.as_secs()).unwrap_or(u32::MAX));
            let limited = Error { message, ..Error::rate_limited(seconds.max(1)) };
            limited.code(ErrorCode::ModelRateLimited)
        }
        ModelErrorKind::RateLimited { retry_after: _ } => {
            Error::unavailable(message).code(ErrorCode::ModelRateLimited)
        }
        ModelErrorKind::Refused if is_too_long(error) => {
            Error::invalid(message).code(ErrorCode::ContextOverflow)
        }
        ModelErrorKind::Refused => Error::invalid(message).code(ErrorCode::ModelRefused),
        ModelErrorKind::Unavailable | ModelErrorKind::Unreachable if steps == 0 => {
            Error::unavailable(message).code(ErrorCode::ModelUnavailable).retry_after(RETRY_SECONDS)
        }
        ModelErrorKind::Unavailable | ModelErrorKind::Protocol | ModelErrorKind::Unreachable => {
            Error::unavailable(message).code(ErrorCode::ModelUnavailable)
        }
    };
    match &error.detail {
        Some(detail) => failed.context(detail),
        None => failed,
    }
}

/// Whether a back end refused a request because the conversation is too long. Back ends have no common code for it.
fn is_too_long(error: &ModelError) -> bool {
    let text = format!("{error:#}").to_lowercase();
    ["too long", "context length", "context window", "context_length_exceeded"]
        .iter()
        .any(|mark| text.contains(mark))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hotdesk_domain::error::Kind;

    #[test]
    fn failures_of_back_ends_have_codes_and_retries_only_before_the_first_step() {
        let limited = ModelErrorKind::RateLimited { retry_after: Some(Duration::from_secs(7)) };
        let of = |kind, detail: &str, steps| {
            let detail = Some(detail.to_owned());
            let error = failure(&ModelError { kind, message: "no".to_owned(), detail }, steps);
            (error.kind, error.code.map_or("", ErrorCode::as_str), error.retry_after)
        };
        for (kind, detail, steps, expected) in [
            (ModelErrorKind::Unauthorized, "", 0, (Kind::Invalid, "model_key_refused", None)),
            (limited, "", 0, (Kind::RateLimited, "model_rate_limited", Some(7))),
            (limited, "", 1, (Kind::Unavailable, "model_rate_limited", None)),
            (ModelErrorKind::Unavailable, "", 0, (Kind::Unavailable, "model_unavailable", Some(5))),
            (ModelErrorKind::Unavailable, "", 3, (Kind::Unavailable, "model_unavailable", None)),
            (ModelErrorKind::Unreachable, "", 0, (Kind::Unavailable, "model_unavailable", Some(5))),
            (ModelErrorKind::Protocol, "", 0, (Kind::Unavailable, "model_unavailable", None)),
            (ModelErrorKind::Refused, "bad tool", 0, (Kind::Invalid, "model_refused", None)),
            (
                ModelErrorKind::Refused,
                "prompt is too long: 210000 tokens > 200000 maximum",
                9,
                (Kind::Invalid, "context_overflow", None),
            ),
        ] {
            assert_eq!(of(kind, detail, steps), expected, "{kind:?} {detail} {steps}");
        }
    }
}
