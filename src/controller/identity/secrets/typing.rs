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

impl Secrets {
    /// Replaces the placeholders in the texts of actions on a computer, and marks these actions as
    /// confidential. Returns whether a text changed.
    ///
    /// # Errors
    /// `Invalid` for a malformed placeholder, and for a text that would be pasted; `NotFound`
    /// (`secret_not_found`) for a secret that the caller may not use here; `TooLarge` for more than
    /// [`MAX_BYTES`].
    pub async fn fill(&self, caller: &Caller, computer: &Computer, actions: &mut [Action]) -> Result<bool> {
        let usable = Self::usable(caller, computer);
        let (mut is_changed, mut left) = (false, MAX_BYTES);
        for action in actions {
            if let Action::Type(body) = action {
                is_changed |= self.fill_text(usable, body, &mut left).await?;
            }
        }
        Ok(is_changed)
    }

    async fn fill_text(&self, usable: UsableSecrets, body: &mut Type, left: &mut usize) -> Result<bool> {
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
                    *left = left.checked_sub(value.reveal().len()).ok_or_else(too_large)?;
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

fn too_large() -> Error {
    Error::too_large(format!("The secrets to type have more than {MAX_BYTES} bytes together"))
}
