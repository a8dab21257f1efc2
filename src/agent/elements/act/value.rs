//! How is an element's value set: by its number, by its text, or by the keyboard? And is it set?

use std::time::Duration;

use atspi::{Role, State};

use super::act::take_focus;
use super::bus::Fault;
use super::reach::Held;
use super::{CALL_TIMEOUT, details, refusal};
use crate::display::keys;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::element::ElementValue;

/// Longest text that is set, in characters.
const MOST_SET: usize = 100_000;
/// Interface of what has text that can be changed.
const EDITABLE: &str = "org.a11y.atspi.EditableText";
/// What two numbers may differ by, relative to their size, and be the same.
const SAME: f64 = 1e-6;

/// A value as the element takes it.
#[derive(Debug, PartialEq)]
pub(super) enum Wanted {
    Number(f64),
    Text(String),
    /// By the keyboard: browsers have no call for what a page's entries hold.
    Typed(String),
}

impl Wanted {
    /// A number goes where numbers are, a text where text can be edited; each as the other where only that is offered.
    pub(super) fn of(held: &Held, value: &ElementValue) -> Result<Self> {
        let offers = held.node.offers;
        let typed = offers.text && held.node.states.contains(State::Editable);
        let parsed = match value {
            ElementValue::Number(number) => Some(*number),
            ElementValue::Text(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        };
        match (value, parsed) {
            (ElementValue::Text(text), _) if text.chars().count() > MOST_SET => {
                Err(Error::too_large(format!("value may have {MOST_SET} characters")))
            }
            (_, Some(number)) if offers.value => Ok(Self::Number(number)),
            (ElementValue::Text(text), _) if offers.editable => Ok(Self::Text(text.clone())),
            (ElementValue::Number(number), _) if offers.editable => Ok(Self::Text(number.to_string())),
            (ElementValue::Text(text), _) if typed => Self::typed(held, text.clone()),
            (ElementValue::Number(number), _) if typed => Self::typed(held, number.to_string()),
            (ElementValue::Text(_), _) if offers.value => Err(Error::invalid("value must be a number here")),
            _ => {
                Err(Error::conflict("The element has no value that can be set").code("element_not_settable"))
            }
        }
    }

    /// Tab would leave the element, and Enter sends what has one line.
    fn typed(held: &Held, text: String) -> Result<Self> {
        let lines = held.node.states.contains(State::MultiLine);
        if text.contains('\t') || (text.contains('\n') && !lines) {
            return Err(Error::invalid(
                "value is typed here and may have no Tab, and Enter only in several lines",
            ));
        }
        Ok(Self::Typed(text))
    }

    /// Sets it; why the program did not, if it says that it did not.
    pub(super) async fn set(&self, held: &Held) -> Result<Option<&'static str>> {
        let object = &held.known.object;
        let done = match self {
            Self::Number(number) => {
                details::set_number(&held.bus, object, *number, CALL_TIMEOUT).await.map(|()| true)
            }
            Self::Typed(text) => return type_over(held, text).await,
            Self::Text(text) => {
                held.bus.ask(object, EDITABLE, "SetTextContents", &(text.as_str(),), CALL_TIMEOUT).await
            }
        };
        match done {
            Ok(true) => Ok(None),
            Ok(false) | Err(Fault::Unknown | Fault::Refused(_)) => Ok(Some("the program refused the value")),
            Err(fault @ (Fault::Gone | Fault::Silent | Fault::Lost(_))) => Err(refusal(&fault)),
        }
    }

    /// Whether the element has it now.
    pub(super) async fn is_so(&self, held: &Held) -> Result<bool, Fault> {
        let object = &held.known.object;
        match self {
            Self::Number(number) => {
                let now = details::number(&held.bus, object, CALL_TIMEOUT).await?;
                Ok((now - number).abs() <= SAME * number.abs().max(1.0))
            }
            // A password reads back as dots: only their number can be compared.
            Self::Text(text) | Self::Typed(text) if held.node.role == Role::PasswordText => {
                let length = details::length(&held.bus, object, CALL_TIMEOUT).await?;
                Ok(usize::try_from(length) == Ok(text.chars().count()))
            }
            Self::Text(text) | Self::Typed(text) => {
                Ok(details::text(&held.bus, object, MOST_SET + 1, CALL_TIMEOUT).await? == *text)
            }
        }
    }
}

/// Replaces an element's text by the keyboard; why nothing was typed, if nothing was.
async fn type_over(held: &Held, text: &str) -> Result<Option<&'static str>> {
    // Typing anywhere else would do harm.
    if take_focus(held).await?.is_some() {
        return Ok(Some("the element did not take the focus, so nothing was typed"));
    }
    let _turn = held.screen.turn().await?;
    held.screen.press(vec![keys::parse("ctrl+a")?], Duration::ZERO).await?;
    if text.is_empty() {
        held.screen.press(vec![keys::parse("BackSpace")?], Duration::ZERO).await?;
    } else {
        held.screen.type_text(text, true).await?;
    }
    Ok(None)
}
