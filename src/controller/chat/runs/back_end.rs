//! Choice of the model of a run and of the key for it, and its failures as errors of the API.

use hotdesk_base::secret::Secret;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::secret::SecretName;
use hotdesk_model::catalog::{ClientKeys, ModelCatalog, ModelHandle, OpenError};
use hotdesk_model::{ModelError, ModelErrorKind};
use hotdesk_store::Store;
use hotdesk_store::secrets::UsableSecrets;

/// Secrets of a workspace or an account that are keys for models, where neither the request nor the operator
/// has one.
const KEY_SECRETS: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];
/// Seconds after which a client may retry when the back end failed before the run did anything.
const RETRY_SECONDS: u32 = 5;

/// Opens the model of a request. Its key is that of the request (`key`, for Anthropic), else the operator's,
/// else a secret that the caller may use on the computer. Keys of requests and of secrets go only to back
/// ends that take keys of clients.
///
/// # Errors
/// `Invalid`: `invalid_model` when there is no such model, `model_key_missing` without a key, `model_key_refused` for a key
/// that no back end has; `Unavailable` or `Internal` when the store fails.
pub async fn open(
    catalog: &ModelCatalog,
    name: Option<&str>,
    key: Option<Secret>,
    (store, usable): (&Store, UsableSecrets),
) -> Result<ModelHandle> {
    let name = name.unwrap_or(&catalog.default_model().name);
    let keys = ClientKeys { anthropic: key, openai: None };
    match catalog.open(name, &keys) {
        Ok(model) if !model.wants_client_key => return Ok(model),
        Ok(_) | Err(OpenError::MissingKey { kind: _ }) => {}
        Err(error @ (OpenError::UnknownModel { known: _ } | OpenError::InvalidKey)) => {
            return Err(refusal(&error));
        }
    }
    let [anthropic, openai] = KEY_SECRETS.map(SecretName::parse);
    let keys = ClientKeys {
        anthropic: store.usable_secret(usable, &anthropic?).await?,
        openai: store.usable_secret(usable, &openai?).await?,
    };
    catalog.open(name, &keys).map_err(|error| refusal(&error))
}

fn refusal(error: &OpenError) -> Error {
    let code = match error {
        OpenError::UnknownModel { known: _ } => ErrorCode::InvalidModel,
        OpenError::MissingKey { kind: _ } => ErrorCode::ModelKeyMissing,
        OpenError::InvalidKey => ErrorCode::ModelKeyRefused,
    };
    Error::invalid(error.to_string()).code(code)
}

/// Converts a failure of a back end. A run that has executed `steps` calls is never announced as safe to
/// repeat: its error has no `Retry-After`, and no status that clients retry by themselves with an
/// `Idempotency-Key`.
pub fn failure(error: &ModelError, steps: u32) -> Error {
    let message = error.message.clone();
    let failed = match error.kind {
        ModelErrorKind::Unauthorized => Error::invalid(message).code(ErrorCode::ModelKeyRefused),
        ModelErrorKind::RateLimited { retry_after } if steps == 0 => {
            let seconds =
                retry_after.map_or(RETRY_SECONDS, |it| u32::try_from(it.as_secs()).unwrap_or(u32::MAX));
            let limited = Error { message, ..Error::rate_limited(seconds.max(1)) };
            limited.code(ErrorCode::ModelRateLimited)
        }
        ModelErrorKind::RateLimited { retry_after: _ } => {
            Error::unavailable(message).code(ErrorCode::ModelRateLimited)
        }
        ModelErrorKind::Refused if error.is_context_overflow() => {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hotdesk_domain::error::Kind;

    #[test]
    fn failures_of_back_ends_have_codes_and_retries_only_before_the_first_step() {
        let limited = ModelErrorKind::RateLimited { retry_after: Some(Duration::from_secs(7)) };
        let of = |kind, steps| {
            let error = failure(&ModelError { kind, message: "no".to_owned(), detail: None }, steps);
            (error.kind, error.code.map_or("", ErrorCode::as_str), error.retry_after)
        };
        for (kind, steps, expected) in [
            (ModelErrorKind::Unauthorized, 0, (Kind::Invalid, "model_key_refused", None)),
            (limited, 0, (Kind::RateLimited, "model_rate_limited", Some(7))),
            (limited, 1, (Kind::Unavailable, "model_rate_limited", None)),
            (ModelErrorKind::Unavailable, 0, (Kind::Unavailable, "model_unavailable", Some(5))),
            (ModelErrorKind::Unavailable, 3, (Kind::Unavailable, "model_unavailable", None)),
            (ModelErrorKind::Unreachable, 0, (Kind::Unavailable, "model_unavailable", Some(5))),
            (ModelErrorKind::Protocol, 0, (Kind::Unavailable, "model_unavailable", None)),
            (ModelErrorKind::Refused, 0, (Kind::Invalid, "model_refused", None)),
        ] {
            assert_eq!(of(kind, steps), expected, "{kind:?} {steps}");
        }
    }
}
