//! Secrets in texts to type: `{{secret:NAME}}` becomes the value before the text goes to the computer.

use super::Secrets;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::Caller;
use hotdesk_domain::secret::placeholder::{self, TextPart};
use hotdesk_store::fleet::computers::Computer;
use hotdesk_store::secrets::UsableSecrets;
use hotdesk_wire::desktop::action::{Action, Type};

/// Most bytes of values in one request: sixteen of the longest. The computer's agent accepts 2 MiB of JSON.
const MAX_BYTES: usize = 1024 * 1024;
/// Most placeholders in one request: each reads and opens a value. An account has 100 secrets.
const MAX_PLACEHOLDERS: usize = 100;

/// Remaining bounds of a request that types.
struct Budget {
    bytes: usize,
    placeholders: usize,
}

impl Budget {
    /// Takes one value from it.
    ///
    /// # Errors
    /// `TooLarge` when it is used up.
    fn take(&mut self, bytes: usize) -> Result<()> {
        let left = self.bytes.checked_sub(bytes).zip(self.placeholders.checked_sub(1));
        (self.bytes, self.placeholders) = left.ok_or_else(|| {
            Error::too_large(format!(
                "The texts have more than {MAX_PLACEHOLDERS} secrets, or secrets of more than {MAX_BYTES} bytes together"
            ))
        })?;
        Ok(())
    }
}

impl Secrets {
    /// Replaces the placeholders in the texts of actions on a computer, and marks these actions as
    /// confidential. Returns whether a text changed.
    ///
    /// # Errors
    /// `Invalid` for a malformed placeholder, and for a text that would be pasted; `NotFound`
    /// (`secret_not_found`) for a secret that the caller may not use here; `TooLarge` for more than
    /// [`MAX_BYTES`] or [`MAX_PLACEHOLDERS`].
    pub async fn fill(&self, caller: &Caller, computer: &Computer, actions: &mut [Action]) -> Result<bool> {
        let usable = Self::usable(caller, computer);
        let mut is_changed = false;
        let mut left = Budget { bytes: MAX_BYTES, placeholders: MAX_PLACEHOLDERS };
        for action in actions {
            if let Action::Type(body) = action {
                is_changed |= self.fill_text(usable, body, &mut left).await?;
            }
        }
        Ok(is_changed)
    }

    async fn fill_text(&self, usable: UsableSecrets, body: &mut Type, left: &mut Budget) -> Result<bool> {
        let parts = placeholder::parts(&body.text)?;
        if parts.iter().all(|part| *part == TextPart::Literal(&body.text)) {
            return Ok(false);
        }
        let (mut text, mut has_secret) = (String::with_capacity(body.text.len()), false);
        for part in parts {
            match part {
                TextPart::Literal(literal) => text.push_str(literal),
                TextPart::Secret(name) => {
                    let value = self.value(usable, &name).await?;
                    left.take(value.reveal().len())?;
                    text.push_str(value.reveal());
                    has_secret = true;
                }
            }
        }
        if has_secret && body.mode.as_deref() == Some("paste") {
            return Err(Error::invalid(
                "A text with {{secret:NAME}} cannot be pasted, because other programs read the clipboard: leave mode out",
            ));
        }
        body.text = text;
        if has_secret {
            body.confidential = Some(true);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bounded_by_number_and_by_length() {
        let budget = || Budget { bytes: MAX_BYTES, placeholders: MAX_PLACEHOLDERS };
        let mut many = budget();
        assert!((0..MAX_PLACEHOLDERS).all(|_| many.take(1).is_ok()) && many.take(1).is_err());
        let mut long = budget();
        assert!(long.take(MAX_BYTES).is_ok() && long.take(1).is_err());
    }
}
