//! Bounds of the fields of requests.

use std::time::Duration;

use hotdesk_domain::error::{Error, Result};

/// Calls of tools in a run when the request does not say.
pub(super) const DEFAULT_STEPS: u32 = 100;
/// Most calls of tools in a run: half an hour at seven seconds each.
pub(super) const MAX_STEPS: u32 = 250;
/// Tokens of a reply when the request does not say: what existing clients expect.
pub(super) const DEFAULT_TOKENS: u32 = 4096;
/// Most tokens of a reply: what the largest models accept.
pub(super) const MAX_TOKENS: u32 = 64_000;
/// Least tokens of thinking that a back end accepts (docs.claude.com, "Extended thinking").
pub(super) const MIN_THINKING: u32 = 1024;
/// Tokens of a reply that an effort of thinking leaves for the answer: a call, or a page of text.
const MIN_ANSWER: u32 = 1024;
/// Tokens of thinking for the efforts of the OpenAI API. Back ends map them to their own measures.
const EFFORTS: [(&str, u32); 6] =
    [("none", 0), ("minimal", 1024), ("low", 1024), ("medium", 2048), ("high", 8192), ("xhigh", 16_384)];
/// Wait for a held screen when the request does not say, in seconds: a person signs in somewhere meanwhile.
const DEFAULT_CONTROL_WAIT: u32 = 600;
/// Longest wait for a held screen, in seconds. A run holds its conversation in memory; a thread can be
/// continued at any time.
const MAX_CONTROL_WAIT: u32 = 3600;
/// Longest wait for the help of a person while the client waits too, in seconds: few clients and proxies
/// keep a connection for longer.
pub(super) const MAX_HELP_WAIT: u32 = 3600;
/// Longest name of a model, a screen or a thread, in bytes.
const MAX_NAME: usize = 200;
/// Pixels of a picture for the model: 1280 by 800. Models scale larger ones down, and then miss what they
/// click.
pub(super) const MAX_PIXELS: u32 = 1280 * 800;
/// Hundred-millionths of a dollar (micro-cents) in a cent.
const MICROCENTS: f64 = 1_000_000.0;

pub(super) fn bounded(field: &str, value: Option<u32>, default: u32, most: u32) -> Result<u32> {
    let value = value.unwrap_or(default);
    if (1..=most).contains(&value) {
        return Ok(value);
    }
    Err(Error::invalid(format!("{field} must be 1 to {most}")))
}

/// A number of seconds from 0; 0 when absent.
pub(super) fn up_to(field: &str, value: Option<u32>, most: u32) -> Result<u32> {
    match value.unwrap_or(0) {
        value if value <= most => Ok(value),
        _ => Err(Error::invalid(format!("{field} must be 0 to {most}"))),
    }
}

pub(super) fn control_wait(seconds: Option<u32>) -> Result<Duration> {
    let seconds = Some(seconds.unwrap_or(DEFAULT_CONTROL_WAIT));
    up_to("control_wait_seconds", seconds, MAX_CONTROL_WAIT).map(|most| Duration::from_secs(most.into()))
}

/// The tokens of thinking of an effort, which are a part of the reply's `tokens`.
pub(super) fn thinking_of(effort: Option<&str>, tokens: u32) -> Result<Option<u32>> {
    let Some(effort) = effort.filter(|effort| !effort.is_empty()) else { return Ok(None) };
    let Some((_, budget)) = EFFORTS.iter().find(|(name, _)| *name == effort) else {
        let names: Vec<&str> = EFFORTS.iter().map(|(name, _)| *name).collect();
        return Err(Error::invalid(format!("reasoning_effort must be one of {}", names.join(", "))));
    };
    let budget = (*budget).min(tokens.saturating_sub(MIN_ANSWER));
    Ok((budget >= MIN_THINKING).then_some(budget))
}

pub(super) fn short(field: &str, text: Option<String>) -> Result<Option<String>> {
    match text {
        Some(text) if text.len() > MAX_NAME => {
            Err(Error::invalid(format!("{field} must be at most {MAX_NAME} bytes")))
        }
        // Some clients send an empty text for none.
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}

pub(super) fn microcents(cents: f64) -> Result<i64> {
    if cents > 0.0 && cents.is_finite() {
        // A cost that is out of range becomes the largest number.
        return Ok((cents * MICROCENTS) as i64);
    }
    Err(Error::invalid("max_cost_cents must be above 0"))
}

#[cfg(test)]
mod tests {
    use super::thinking_of;

    #[test]
    fn efforts_become_tokens_of_thinking_that_leave_some_for_the_answer() {
        for (effort, tokens, expected) in [
            (None, 4096, None),
            (Some(""), 4096, None),
            (Some("none"), 4096, None),
            (Some("low"), 4096, Some(1024)),
            (Some("medium"), 4096, Some(2048)),
            (Some("high"), 4096, Some(3072)),
            (Some("low"), 2048, Some(1024)),
            (Some("high"), 2047, None),
            (Some("high"), 64_000, Some(8192)),
            (Some("low"), 1024, None),
        ] {
            assert_eq!(thinking_of(effort, tokens).unwrap(), expected, "{effort:?} {tokens}");
        }
    }
}
