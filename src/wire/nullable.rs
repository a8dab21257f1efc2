//! How does a field say that it shall become nothing? By null; one that is left out stays as it is.

use serde::{Deserialize, Deserializer};

/// Reads a field that is there, null or not; `#[serde(default)]` is for one that is not.
///
/// # Errors
/// What the value's own type says.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}
