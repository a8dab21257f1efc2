//! Names of steps in errors of the helper, which [`EngineError`](crate::EngineError) holds as static text.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Most different texts: several times the number of steps in the source of this crate. They are never freed.
const MAX_TEXTS: usize = 1024;
/// Longest text, in bytes: several times the longest name of a step.
const MAX_BYTES: usize = 256;
/// What stands for a text beyond the limits.
const OTHER: &str = "finish a step of the host helper";

static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Returns a static text that equals `text`, or a general one when there are too many.
pub(super) fn interned(text: &str) -> &'static str {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    if texts.len() >= MAX_TEXTS || text.len() > MAX_BYTES {
        return OTHER;
    }
    let fresh: &'static str = Box::leak(Box::from(text));
    texts.insert(fresh);
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_stored_once_and_their_number_is_bounded() {
        let (one, same) = (interned("mount the disk"), interned(&["mount ", "the disk"].concat()));
        assert_eq!(one, "mount the disk");
        assert!(std::ptr::eq(one, same));
        assert_eq!(interned(&"x".repeat(MAX_BYTES + 1)), OTHER);
        for number in 0..2 * MAX_TEXTS {
            interned(&number.to_string());
        }
        assert_eq!(interned("one more"), OTHER);
        assert_eq!(interned("mount the disk"), one);
    }
}
