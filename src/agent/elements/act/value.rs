//! New value of an element: set as a number, as text or by the keyboard, and checked.

use std::time::Duration;

use atspi::{Role, State};

use crate::display::keys;
use crate::elements::act::locate::LocatedElement;
use crate::elements::act::take_focus;
use crate::elements::bus::BusFault;
use crate::elements::bus::details;
use crate::elements::{CALL_TIMEOUT, refusal};
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::desktop::element::ElementValue;

/// Most characters of a text.
const MAX_TEXT_CHARS: usize = 100_000;
/// Interface for editable text.
const EDITABLE: &str = "org.a11y.atspi.EditableText";
/// Relative difference up to which two numbers count as equal.
const SAME: f64 = 1e-6;

/// A value in the form that the element takes.
#[derive(Debug, PartialEq)]
pub(in crate::elements) enum NewValue {
    Number(f64),
    Text(String),
    /// Typed by the keyboard: browsers have no call that changes an input of a page.
    Typed(String),
}

impl NewValue {
    /// Chooses the form: a number for a numeric element, a text for an editable one, converted when the
    /// element takes only the other form.
    pub(in crate::elements) fn of(located: &LocatedElement, value: &ElementValue) -> Result<Self> {
        let interfaces = located.node.interfaces;
        let typed = interfaces.text && located.node.states.contains(State::Editable);
        let parsed = match value {
            ElementValue::Number(number) => Some(*number),
            ElementValue::Text(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        };
        match (value, parsed) {
            (ElementValue::Text(text), _) if text.chars().count() > MAX_TEXT_CHARS => {
                Err(Error::too_large(format!("value may have {MAX_TEXT_CHARS} characters")))
            }
            (_, Some(number)) if interfaces.value => Ok(Self::Number(number)),
            (ElementValue::Text(text), _) if interfaces.editable => Ok(Self::Text(text.clone())),
            (ElementValue::Number(number), _) if interfaces.editable => Ok(Self::Text(number.to_string())),
            (ElementValue::Text(text), _) if typed => Self::typed(located, text.clone()),
            (ElementValue::Number(number), _) if typed => Self::typed(located, number.to_string()),
            (ElementValue::Text(_), _) if interfaces.value => {
                Err(Error::invalid("value must be a number here"))
            }
            _ => Err(Error::conflict("The element has no value that can be set")
                .code(ErrorCode::ElementNotSettable)),
        }
    }

    /// Checks a text to type: Tab would leave the element, and Enter submits a single line.
    fn typed(located: &LocatedElement, text: String) -> Result<Self> {
        let lines = located.node.states.contains(State::MultiLine);
        if text.contains('\t') || (text.contains('\n') && !lines) {
            return Err(Error::invalid(
                "value is typed here and may have no Tab, and Enter only in several lines",
            ));
        }
        Ok(Self::Typed(text))
    }

    /// Sets the value for an actor; returns why the program did not, if it reports that.
    pub(in crate::elements) async fn set(
        &self,
        located: &LocatedElement,
        by: Option<Actor>,
    ) -> Result<Option<&'static str>> {
        let control = located.screen.control();
        let object = &located.key.object;
        let done = match self {
            Self::Number(number) => {
                let _input = control.admit(by).await?;
                details::set_number(&located.bus, object, *number, CALL_TIMEOUT).await.map(|()| true)
            }
            Self::Typed(text) => return type_over(located, text, by).await,
            Self::Text(text) => {
                let _input = control.admit(by).await?;
                located.bus.call(object, EDITABLE, "SetTextContents", &(text.as_str(),), CALL_TIMEOUT).await
            }
        };
        match done {
            Ok(true) => Ok(None),
            Ok(false) | Err(BusFault::Unknown | BusFault::Refused(_)) => {
                Ok(Some("the program refused the value"))
            }
            Err(fault @ (BusFault::Gone | BusFault::Silent | BusFault::Lost(_))) => Err(refusal(&fault)),
        }
    }

    /// Whether the element has the value now.
    pub(in crate::elements) async fn is_so(&self, located: &LocatedElement) -> Result<bool, BusFault> {
        let object = &located.key.object;
        match self {
            Self::Number(number) => {
                let now = details::number(&located.bus, object, CALL_TIMEOUT).await?;
                Ok((now - number).abs() <= SAME * number.abs().max(1.0))
            }
            // A password reads back as dots: only the lengths can be compared.
            Self::Text(text) | Self::Typed(text) if located.node.role == Role::PasswordText => {
                let length = details::length(&located.bus, object, CALL_TIMEOUT).await?;
                Ok(usize::try_from(length) == Ok(text.chars().count()))
            }
            Self::Text(text) | Self::Typed(text) => {
                Ok(details::text(&located.bus, object, MAX_TEXT_CHARS + 1, CALL_TIMEOUT).await? == *text)
            }
        }
    }
}

/// Replaces an element's text by the keyboard; returns why nothing was typed, if nothing was.
async fn type_over(located: &LocatedElement, text: &str, by: Option<Actor>) -> Result<Option<&'static str>> {
    let input = located.screen.control().admit(by).await?;
    // Without the focus the text would go to another element.
    if take_focus(located).await?.is_some() {
        return Ok(Some("the element did not take the focus, so nothing was typed"));
    }
    // The turn comes before the admission, as with actions: a taker never waits for both.
    drop(input);
    let _turn = located.screen.acquire_turn().await?;
    let _input = located.screen.control().admit(by).await?;
    located.screen.press(vec![keys::parse("ctrl+a")?], Duration::ZERO).await?;
    if text.is_empty() {
        located.screen.press(vec![keys::parse("BackSpace")?], Duration::ZERO).await?;
    } else {
        located.screen.type_text(text, true).await?;
    }
    Ok(None)
}
