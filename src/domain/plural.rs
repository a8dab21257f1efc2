//! How is a number of things said? "1 computer", "2 computers".

use std::fmt::Display;

/// A count with its noun, whose plural is regular.
pub fn counted(count: impl Into<i64> + Display + Copy, one: &str) -> String {
    let number: i64 = count.into();
    let plural = if number == 1 { "" } else { "s" };
    format!("{count} {one}{plural}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn only_one_is_singular() {
        for (count, said) in [(0_u32, "0 computers"), (1, "1 computer"), (2, "2 computers")] {
            assert_eq!(counted(count, "computer"), said);
        }
    }
}
