//! Prices of tokens, and the cost of a turn.

use crate::conversation::Usage;

/// Prices in millionths of a US dollar for a million tokens: 3,000,000 is $3. Zero: free, or not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Tokens of requests.
    pub input: u64,
    /// Tokens of replies.
    pub output: u64,
    /// Tokens of requests that the back end had cached.
    pub cache_read: u64,
    /// Tokens of requests that the back end wrote to its cache.
    pub cache_write: u64,
}

/// Millionths of a cent in a cent.
pub const MICRO_CENTS: u64 = 1_000_000;
/// What a price is divided by: a million tokens; a millionth of a dollar is 100 millionths of a cent.
const DIVISOR: u128 = 1_000_000 / 100;

impl Prices {
    /// Prices in cents for a million tokens.
    pub(crate) const fn in_cents(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        const CENT: u64 = 10_000;
        Self {
            input: input * CENT,
            output: output * CENT,
            cache_read: cache_read * CENT,
            cache_write: cache_write * CENT,
        }
    }

    /// Returns the cost of these tokens in millionths of a US cent, rounded up. It saturates.
    pub fn cost(&self, usage: &Usage) -> u64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_tokens, self.cache_read),
            (usage.cache_write_tokens, self.cache_write),
        ];
        // Four products of 128 bits may exceed 128 bits.
        let total = parts
            .iter()
            .map(|(tokens, price)| u128::from(*tokens) * u128::from(*price))
            .fold(0_u128, u128::saturating_add);
        u64::try_from(total.div_ceil(DIVISOR)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_costs_its_tokens_at_their_prices() {
        let sonnet = Prices::in_cents(300, 1500, 30, 375);
        // $0.005 for a million.
        let nano = Prices { cache_read: 5_000, ..Prices::default() };
        let usage = |input_tokens, output_tokens, cache_read_tokens, cache_write_tokens| Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
        };
        for (prices, usage, micro_cents) in [
            (sonnet, usage(0, 0, 0, 0), 0),
            (sonnet, usage(1_000_000, 0, 0, 0), 300 * MICRO_CENTS),
            (sonnet, usage(0, 1_000_000, 0, 0), 1500 * MICRO_CENTS),
            (sonnet, usage(0, 0, 1_000_000, 0), 30 * MICRO_CENTS),
            (sonnet, usage(0, 0, 0, 1_000_000), 375 * MICRO_CENTS),
            (sonnet, usage(1, 0, 0, 0), 300),
            (sonnet, usage(1000, 100, 2000, 10), 300_000 + 150_000 + 60_000 + 3_750),
            (nano, usage(9, 9, 1, 9), 1),
            (nano, usage(0, 0, 2, 0), 1),
            (nano, usage(0, 0, 3, 0), 2),
            (Prices::default(), usage(9, 9, 9, 9), 0),
            (Prices { input: u64::MAX, ..sonnet }, usage(u64::MAX, u64::MAX, 0, 0), u64::MAX),
        ] {
            assert_eq!(prices.cost(&usage), micro_cents, "{prices:?} {usage:?}");
        }
    }
}
