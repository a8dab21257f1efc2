//! Deserializer for fields where null differs from absent: null clears the field, absent leaves it unchanged.

use serde::{Deserialize, Deserializer};

/// Deserializes a present field to `Some`; use `#[serde(default)]` for an absent one.
///
/// # Errors
/// Those of `T`.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}
