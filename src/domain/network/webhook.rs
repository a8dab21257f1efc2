//! Webhooks that the service sends: signature, texts with fields of the event, and repetition.
//!
//! The signature is that of Standard Webhooks (<https://www.standardwebhooks.com>): HMAC-SHA256 with the secret over
//! `ID.TIMESTAMP.BODY`, in Base64, after `v1,`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::{Error, Result};

/// Beginning of a secret's text; the rest is Base64.
const SECRET_PREFIX: &str = "whsec_";
/// Most webhooks of a computer within [`RATE_WINDOW`]: that many a trigger may run. The computer is not trusted.
const MAX_RATE: usize = 60;
/// Time in which they count.
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// Most webhooks of a computer that are sent or wait for their repetition: what it may have running while a receiver is
/// slow, without an effect on others.
pub const MAX_PENDING: usize = 8;
/// Pauses between the attempts: two minutes in all, so that a receiver may restart.
pub const RETRY_PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25), Duration::from_secs(90)];
/// Longest attempt.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest delivery, with all attempts and pauses, and some time for a turn.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(240);
/// Largest URL, header value and body of a webhook after its references were replaced, in bytes.
pub const MAX_URL: usize = 8 * 1024;
/// See [`MAX_URL`].
pub const MAX_HEADER: usize = 8 * 1024;
/// See [`MAX_URL`].
pub const MAX_BODY: usize = 512 * 1024;

/// Header field with the computer's id.
pub const COMPUTER_HEADER: &str = "hotdesk-computer";
/// Header fields that the service sets or that belong to the connection, in lower case.
pub const OWN_HEADERS: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    COMPUTER_HEADER,
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// The secret that signs the webhooks of an account.
#[derive(Clone)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// Derives the secret of an account from that of the installation.
    ///
    /// # Errors
    /// `Internal` when HMAC fails, which it does for no key.
    pub fn derive(installation: &[u8], account: &str) -> Result<Self> {
        let text = format!("webhooks of {account}");
        Ok(Self(mac(installation, text.as_bytes())?))
    }

    /// The text for receivers, as libraries of Standard Webhooks take it.
    pub fn text(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// The value of `webhook-signature`. `seconds` is the Unix time in `webhook-timestamp`.
    ///
    /// # Errors
    /// Those of [`Self::derive`].
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> Result<String> {
        let signed = [format!("{id}.{seconds}.").as_bytes(), body].concat();
        Ok(format!("v1,{}", STANDARD.encode(mac(&self.0, &signed)?)))
    }
}

fn mac(key: &[u8], text: &[u8]) -> Result<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(Error::internal)?;
    mac.update(text);
    Ok(mac.finalize().into_bytes().to_vec())
}

/// Meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver has it.
    Done,
    /// It may take it later.
    Retry,
    /// It does not want it.
    Refused,
}

/// Judges the status of an answer. Redirects are not followed: the new place is not what the template names.
pub fn judge(status: u16) -> Delivery {
    match status {
        200..=299 => Delivery::Done,
        408 | 425 | 429 | 500..=599 => Delivery::Retry,
        _ => Delivery::Refused,
    }
}

/// How many webhooks a computer may send now.
#[derive(Clone, Debug, Default)]
pub struct WebhookRate {
    times: VecDeque<Instant>,
}

impl WebhookRate {
    /// Takes one. Returns false when there were too many in the last minute.
    pub fn take(&mut self, now: Instant) -> bool {
        self.times.retain(|time| now.duration_since(*time) < RATE_WINDOW);
        let is_left = self.times.len() < MAX_RATE;
        if is_left {
            self.times.push_back(now);
        }
        is_left
    }
}

/// A value as a part of a URL: everything but unreserved characters is encoded (RFC 3986, section 2.3).
pub fn in_url(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// A value as a part of a header field: without control characters.
pub fn in_header(value: &str) -> String {
    value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A value as a part of a JSON string, without its quotes.
pub fn in_json(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        // The example of the specification's libraries.
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = WebhookSecret(key).sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_account_has_a_secret_of_its_own() {
        let secret = |key: &[u8], account: &str| WebhookSecret::derive(key, account).unwrap().text();
        assert_eq!(secret(b"k", "a"), secret(b"k", "a"));
        assert_ne!(secret(b"k", "a"), secret(b"k", "b"));
        assert_ne!(secret(b"k", "a"), secret(b"l", "a"));
        let text = secret(b"k", "a");
        assert_eq!(STANDARD.decode(text.strip_prefix(SECRET_PREFIX).unwrap()).unwrap().len(), 32);
    }

    #[test]
    fn only_answers_that_may_become_better_are_repeated() {
        for (status, expected) in [
            (200, Delivery::Done),
            (204, Delivery::Done),
            (301, Delivery::Refused),
            (400, Delivery::Refused),
            (404, Delivery::Refused),
            (408, Delivery::Retry),
            (429, Delivery::Retry),
            (500, Delivery::Retry),
            (503, Delivery::Retry),
        ] {
            assert_eq!(judge(status), expected, "{status}");
        }
    }

    #[test]
    fn the_rate_of_a_computer_is_bounded() {
        let (began, mut rate) = (Instant::now(), WebhookRate::default());
        assert!((0..MAX_RATE).all(|_| rate.take(began)));
        assert!(!rate.take(began + Duration::from_secs(59)));
        assert!(rate.take(began + Duration::from_secs(60)));
    }

    #[test]
    fn values_keep_the_form_of_their_place() {
        assert_eq!(in_url("a b/c?d=ä&e"), "a%20b%2Fc%3Fd%3D%C3%A4%26e");
        assert_eq!(in_header("a\r\nb: c"), "a  b: c");
        assert_eq!(in_json("say \"ä\\\"\n"), "say \\\"ä\\\\\\\"\\u000a");
    }

    #[test]
    fn a_delivery_ends_before_the_computer_gives_up() {
        let attempts = RETRY_PAUSES.len() as u32 + 1;
        assert!(RETRY_PAUSES.iter().sum::<Duration>() + ATTEMPT_TIMEOUT * attempts <= DELIVERY_TIMEOUT);
    }
}
