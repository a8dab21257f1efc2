//! Rule about the counters of authenticators (W3C Web Authentication Level 2 section 6.1.1).

/// Whether the counter of an authenticator may follow the stored one. A counter that does not grow is a sign of a
/// copied authenticator; many do not count, and always say 0.
pub fn may_follow(stored: u32, counted: u32) -> bool {
    counted > stored || (counted, stored) == (0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows_or_stays_zero() {
        for (stored, counted, ok) in
            [(0, 0, true), (0, 1, true), (5, 6, true), (5, 5, false), (5, 4, false), (5, 0, false)]
        {
            assert_eq!(may_follow(stored, counted), ok, "{stored} {counted}");
        }
    }
}
