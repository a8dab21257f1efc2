//! Limits and billing of an operator's clients. Amounts of money are in micro-dollars (millionths of a US
//! dollar).

use crate::error::{Error, Result};
use crate::error_code::ErrorCode;

/// Micro-dollars in a dollar.
const MICROS: f64 = 1_000_000.0;
/// Largest amount, in dollars: exact both as 64-bit micro-dollars and as a double.
const MAX_USD: f64 = 1_000_000_000.0;
/// Longest external id, in characters.
const MAX_EXTERNAL_ID: usize = 255;

/// The payer for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BilledTo {
    /// The operator.
    #[default]
    Operator,
    /// The client.
    Client,
}

impl BilledTo {
    /// Every payer.
    pub const ALL: [Self; 2] = [Self::Operator, Self::Client];

    /// Returns the name in the API and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Client => "client",
        }
    }

    /// Returns the payer with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|payer| payer.name() == name)
    }

    /// Parses the payer in a request.
    ///
    /// # Errors
    /// `Invalid` for any other name.
    pub fn parse(name: &str) -> Result<Self> {
        Self::from_name(name).ok_or_else(|| Error::invalid("billed_to must be operator or client"))
    }
}

/// Limits and payer of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientTerms {
    /// Largest number of its computers, besides the operator's own limit; `None` means no further limit.
    pub max_computers: Option<u32>,
    /// Largest cost of AI models in a calendar month (UTC), in micro-dollars; `None` means no limit.
    pub monthly_ai_cap: Option<i64>,
    /// The payer.
    pub billed_to: BilledTo,
}

impl ClientTerms {
    /// Checks whether `amount` more can be spent in a month with a spend of `spent`, both in micro-dollars.
    ///
    /// # Errors
    /// `PaymentRequired` with the code `credits_exhausted` above the cap.
    pub fn check_spend(&self, spent: i64, amount: i64) -> Result<()> {
        match self.monthly_ai_cap {
            Some(cap) if spent.saturating_add(amount) > cap => {
                let (cap, spent) = (dollars(cap), dollars(spent));
                Err(Error::payment_required(format!(
                    "This client's AI models may cost {cap} dollars a month and have cost {spent}"
                ))
                .code(ErrorCode::CreditsExhausted))
            }
            _ => Ok(()),
        }
    }
}

/// Converts an amount in dollars of the field `field` to micro-dollars.
///
/// # Errors
/// `Invalid` when it is negative, too large or not a number; the message names the field.
pub fn micros(field: &str, usd: f64) -> Result<i64> {
    if (0.0..=MAX_USD).contains(&usd) {
        // Exact: MAX_USD in micro-dollars is below 2^53.
        return Ok((usd * MICROS).round() as i64);
    }
    Err(Error::invalid(format!("{field} must be a number of dollars, 0 to {MAX_USD}")))
}

/// Converts micro-dollars to dollars.
pub fn dollars(micros: i64) -> f64 {
    micros as f64 / MICROS
}

/// Checks a client's external id and returns it trimmed.
///
/// # Errors
/// `Invalid` when it is empty, too long or has a control character.
pub fn check_external_id(text: &str) -> Result<&str> {
    let trimmed = text.trim();
    let count = trimmed.chars().count();
    if count == 0 || count > MAX_EXTERNAL_ID || trimmed.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "external_id must be 1 to {MAX_EXTERNAL_ID} characters, none of them a control character"
        )));
    }
    Ok(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_spend_cap_is_exact() {
        let terms = |cap| ClientTerms { monthly_ai_cap: cap, ..ClientTerms::default() };
        for (cap, spent, amount, fits) in [
            (None, i64::MAX, 1, true),
            (Some(10), 0, 10, true),
            (Some(10), 9, 1, true),
            (Some(10), 9, 2, false),
            (Some(10), 10, 0, true),
            (Some(0), 0, 1, false),
            (Some(10), 5, i64::MAX, false),
        ] {
            let got = terms(cap).check_spend(spent, amount);
            assert_eq!(got.is_ok(), fits, "{cap:?} {spent} {amount}");
            if let Err(error) = got {
                assert_eq!(
                    (error.kind, error.code),
                    (Kind::PaymentRequired, Some(ErrorCode::CreditsExhausted))
                );
            }
        }
    }

    #[test]
    fn amounts_and_names_are_checked() {
        for (usd, expected) in [(0.0, 0), (0.000_001, 1), (12.34, 12_340_000), (1e9, 1_000_000_000_000_000)] {
            assert_eq!(micros("x", usd).unwrap(), expected, "{usd}");
            assert_eq!(dollars(expected), usd);
        }
        for bad in [-0.01, f64::NAN, f64::INFINITY, 1e10] {
            assert!(micros("x", bad).is_err(), "{bad}");
        }
        assert_eq!(check_external_id(" a b ").unwrap(), "a b");
        for bad in ["", "  ", "a\nb", &"x".repeat(256)] {
            assert!(check_external_id(bad).is_err(), "{bad:?}");
        }
        for payer in BilledTo::ALL {
            assert_eq!(BilledTo::parse(payer.name()).unwrap(), payer);
        }
        assert!(BilledTo::parse("nobody").is_err());
    }
}
