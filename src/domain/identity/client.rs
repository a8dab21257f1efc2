//! What may a client of an operator have, and who pays for it? Money is in millionths of a dollar.

use super::error::{Error, Result};

/// Millionths of a dollar in one.
const MICROS: f64 = 1_000_000.0;
/// Largest amount in dollars: what a 64-bit number of millionths and a double both hold exactly.
const MAX_USD: f64 = 1_000_000_000.0;
/// Longest external id in characters.
const MAX_EXTERNAL_ID: usize = 255;

/// Who pays for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BilledTo {
    /// The operator.
    #[default]
    Operator,
    /// The client.
    Client,
}

impl BilledTo {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Operator, Self::Client];

    /// Its word on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Client => "client",
        }
    }

    /// The payer of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|payer| payer.name() == name)
    }

    /// The payer that a request names.
    ///
    /// # Errors
    /// `Invalid` for any other word.
    pub fn parse(name: &str) -> Result<Self> {
        Self::named(name).ok_or_else(|| Error::invalid("billed_to must be operator or client"))
    }
}

/// The bounds of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Computers that it may have beside the operator's own bound; `None` is no other.
    pub max_computers: Option<u32>,
    /// What AI models may cost it in a month of UTC, in millionths of a dollar; `None` is without a bound.
    pub monthly_ai_cap: Option<i64>,
    /// Who pays.
    pub billed_to: BilledTo,
}

impl Terms {
    /// May `amount` more be spent in a month in which `spent` was?
    ///
    /// # Errors
    /// `PaymentRequired` (`credits_exhausted`) above the cap.
    pub fn check_spend(&self, spent: i64, amount: i64) -> Result<()> {
        match self.monthly_ai_cap {
            Some(cap) if spent.saturating_add(amount) > cap => {
                let (cap, spent) = (dollars(cap), dollars(spent));
                Err(Error::payment_required(format!(
                    "This client's AI models may cost {cap} dollars a month and have cost {spent}"
                ))
                .code("credits_exhausted"))
            }
            _ => Ok(()),
        }
    }
}

/// An amount that a request tells in dollars, as millionths.
///
/// # Errors
/// `Invalid` naming the field when it is negative, too large or no number.
pub fn micros(field: &str, usd: f64) -> Result<i64> {
    if (0.0..=MAX_USD).contains(&usd) {
        // Exact enough: MAX_USD in millionths is below 2^53.
        return Ok((usd * MICROS).round() as i64);
    }
    Err(Error::invalid(format!("{field} must be a number of dollars, 0 to {MAX_USD}")))
}

/// Millionths as dollars.
pub fn dollars(micros: i64) -> f64 {
    micros as f64 / MICROS
}

/// Checks what an operator calls a client.
///
/// # Errors
/// `Invalid` when it is empty, too long or holds a control character.
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
    use super::super::error::Kind;
    use super::*;

    #[test]
    fn a_cap_holds_up_to_its_last_millionth() {
        let terms = |cap| Terms { monthly_ai_cap: cap, ..Terms::default() };
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
                assert_eq!((error.kind, error.code), (Kind::PaymentRequired, Some("credits_exhausted")));
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
