//! Number, text and actions of an element, fetched only for listed elements.

use std::time::Duration;

use atspi::{Role, State};

use crate::elements::bus::object::{Node, Object, cut};
use crate::elements::bus::{Bus, BusFault};

/// Most characters of a name or description: a line or two.
pub(in crate::elements) const MAX_NAME: usize = 200;
/// Most characters of a text: one page.
pub(in crate::elements) const MAX_TEXT: usize = 1000;
/// Most actions of one element; toolkits offer one to five.
const MAX_ACTIONS: usize = 10;
/// Interface for text.
const TEXT: &str = "org.a11y.atspi.Text";
/// Interface for a number.
const VALUE: &str = "org.a11y.atspi.Value";
/// Interface for actions.
pub(in crate::elements) const ACTION: &str = "org.a11y.atspi.Action";

/// Details that the walk does not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::elements) struct Details {
    pub(in crate::elements) value: Option<f64>,
    pub(in crate::elements) text: Option<String>,
    pub(in crate::elements) actions: Vec<String>,
}

/// Fetches a node's details. Details that its program refuses are absent.
///
/// # Errors
/// `Silent` or `Lost`: further calls to the program make no sense.
pub(in crate::elements) async fn details(
    bus: &Bus,
    node: &Node,
    timeout: Duration,
) -> Result<Details, BusFault> {
    let object = &node.object;
    let (value, text, actions) = futures_util::join!(
        async { if node.interfaces.value { number(bus, object, timeout).await.map(Some) } else { Ok(None) } },
        async {
            if shows_text(node) {
                text(bus, object, MAX_TEXT, timeout).await.map(|text| plain(&text))
            } else {
                Ok(None)
            }
        },
        async { if node.interfaces.action { actions(bus, object, timeout).await } else { Ok(Vec::new()) } },
    );
    Ok(Details {
        value: optional(value)?.flatten(),
        text: optional(text)?.flatten(),
        actions: optional(actions)?.unwrap_or_default(),
    })
}

/// The answer; `None` when this detail is refused.
fn optional<T>(answer: Result<T, BusFault>) -> Result<Option<T>, BusFault> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(BusFault::Gone | BusFault::Unknown | BusFault::Refused(_)) => Ok(None),
        Err(fault @ (BusFault::Silent | BusFault::Lost(_))) => Err(fault),
    }
}

/// Whether a node's text is returned: that of editable nodes, and of nodes without a name.
fn shows_text(node: &Node) -> bool {
    let editable = node.states.contains(State::Editable);
    node.interfaces.text && node.role != Role::PasswordText && (editable || node.name.is_empty())
}

/// Reads the number.
pub(in crate::elements) async fn number(
    bus: &Bus,
    object: &Object,
    timeout: Duration,
) -> Result<f64, BusFault> {
    let number: f64 = bus.property(object, VALUE, "CurrentValue", timeout).await?;
    // JSON cannot represent infinite numbers and NaN.
    if number.is_finite() { Ok(number) } else { Err(BusFault::Refused(format!("the value is {number}"))) }
}

/// Sets the number.
pub(in crate::elements) async fn set_number(
    bus: &Bus,
    object: &Object,
    to: f64,
    timeout: Duration,
) -> Result<(), BusFault> {
    bus.set_property(object, VALUE, "CurrentValue", to.into(), timeout).await
}

/// Returns the number of characters of the text.
pub(in crate::elements) async fn length(
    bus: &Bus,
    object: &Object,
    timeout: Duration,
) -> Result<i32, BusFault> {
    bus.property(object, TEXT, "CharacterCount", timeout).await
}

/// Reads the text, cut to `most` characters.
pub(in crate::elements) async fn text(
    bus: &Bus,
    object: &Object,
    most: usize,
    timeout: Duration,
) -> Result<String, BusFault> {
    let length = length(bus, object, timeout).await?;
    // One more, so that a cut is detected; never all of a text of gigabytes.
    let end = length.min(i32::try_from(most + 1).unwrap_or(i32::MAX));
    if end <= 0 {
        return Ok(String::new());
    }
    let text: String = bus.call(object, TEXT, "GetText", &(0, end), timeout).await?;
    Ok(cut(&text, most))
}

async fn actions(bus: &Bus, object: &Object, timeout: Duration) -> Result<Vec<String>, BusFault> {
    let all: Vec<(String, String, String)> = bus.call(object, ACTION, "GetActions", &(), timeout).await?;
    let mut names = Vec::new();
    for (number, (name, _, _)) in (0_i32..).zip(all.into_iter().take(MAX_ACTIONS)) {
        // Browsers leave the localized names in this list empty.
        let name = match name.as_str() {
            "" => bus.call(object, ACTION, "GetName", &(number,), timeout).await?,
            _ => name,
        };
        names.push(cut(&name, MAX_NAME));
    }
    Ok(names)
}

/// Removes the characters that stand for embedded objects; `None` when the text has no others.
fn plain(text: &str) -> Option<String> {
    const EMBEDDED: char = '\u{fffc}';
    if !text.contains(EMBEDDED) {
        return Some(text.to_owned());
    }
    let plain = text.replace(EMBEDDED, "");
    Some(plain.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn placeholders_of_embedded_objects_are_removed() {
        for (text, wanted) in [
            ("", Some("")),
            (" a ", Some(" a ")),
            ("\u{fffc}", None),
            ("\u{fffc} \u{fffc}", None),
            ("Name \u{fffc}", Some("Name")),
        ] {
            assert_eq!(super::plain(text).as_deref(), wanted);
        }
    }
}
