//! Numbers of a document.

/// A number that is not infinite.
pub(super) fn number(text: &str) -> Option<f64> {
    integer(text)
        .map(|value| value as f64)
        .or_else(|| text.parse().ok())
        .filter(|value: &f64| value.is_finite())
}

/// A whole number that is not negative. It may have a point, such as `2.0` (JSON Schema, section 6.1.1).
pub(super) fn integer(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok();
    }
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits {
        return text.parse().ok();
    }
    let value: f64 = text.parse().ok()?;
    // A float knows the last digit of whole numbers up to 2 to the power of 53.
    (value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value)).then_some(value as u64)
}
