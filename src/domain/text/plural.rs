//! Counts with their nouns: "1 computer", "2 computers".

use std::fmt::Display;

/// Formats a count with its noun, which must have a regular plural.
pub fn plural(count: impl Into<i64> + Display + Copy, one: &str) -> String {
    let number: i64 = count.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{count} {one}{plural}")
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn only_one_is_singular() {
        for (count, expected) in [(0_u32, "0 computers"), (1, "1 computer"), (2, "2 computers")] {
            assert_eq!(plural(count, "computer"), expected);
        }
    }
}
