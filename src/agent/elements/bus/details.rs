//! What else is told of an element? Its number, its text and its actions, asked for those alone that are listed.

use std::time::Duration;

use atspi::{Role, State};

use super::bus::{Bus, Fault};
use super::object::{Node, Object, cut};

/// Longest name or description in characters: a line or two.
pub(super) const MOST_NAME: usize = 200;
/// Longest text in characters: a page of it.
pub(super) const MOST_TEXT: usize = 1000;
/// Most actions of one element; toolkits offer one to five.
const MOST_ACTIONS: usize = 10;
/// Interface of what has text.
const TEXT: &str = "org.a11y.atspi.Text";
/// Interface of what has a number.
const VALUE: &str = "org.a11y.atspi.Value";
/// Interface of what can be told to do something.
pub(super) const ACTION: &str = "org.a11y.atspi.Action";

/// What the walk does not know of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Details {
    pub(super) value: Option<f64>,
    pub(super) text: Option<String>,
    pub(super) actions: Vec<String>,
}

/// Asks for a node's details. What a program refuses to tell is left out.
///
/// # Errors
/// `Silent` or `Lost`: there is no use in asking on.
pub(super) async fn details(bus: &Bus, node: &Node, patience: Duration) -> Result<Details, Fault> {
    let object = &node.object;
    let (value, text, actions) = futures_util::join!(
        async { if node.offers.value { number(bus, object, patience).await.map(Some) } else { Ok(None) } },
        async {
            if tells_text(node) {
                text(bus, object, MOST_TEXT, patience).await.map(|text| plain(&text))
            } else {
                Ok(None)
            }
        },
        async { if node.offers.action { actions(bus, object, patience).await } else { Ok(Vec::new()) } },
    );
    Ok(Details {
        value: told(value)?.flatten(),
        text: told(text)?.flatten(),
        actions: told(actions)?.unwrap_or_default(),
    })
}

/// What was told; `None` when this one was not.
fn told<T>(answer: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Gone | Fault::Unknown | Fault::Refused(_)) => Ok(None),
        Err(fault @ (Fault::Silent | Fault::Lost(_))) => Err(fault),
    }
}

/// Whether a node's text is worth telling: what a person may change, and what has no name to say the same.
fn tells_text(node: &Node) -> bool {
    let editable = node.states.contains(State::Editable);
    node.offers.text && node.role != Role::PasswordText && (editable || node.name.is_empty())
}

/// The present number.
pub(super) async fn number(bus: &Bus, object: &Object, patience: Duration) -> Result<f64, Fault> {
    let number: f64 = bus.property(object, VALUE, "CurrentValue", patience).await?;
    // JSON has no word for the others.
    if number.is_finite() { Ok(number) } else { Err(Fault::Refused(format!("the value is {number}"))) }
}

/// Sets the number.
pub(super) async fn set_number(bus: &Bus, object: &Object, to: f64, patience: Duration) -> Result<(), Fault> {
    bus.set_property(object, VALUE, "CurrentValue", to.into(), patience).await
}

/// How many characters the text has.
pub(super) async fn length(bus: &Bus, object: &Object, patience: Duration) -> Result<i32, Fault> {
    bus.property(object, TEXT, "CharacterCount", patience).await
}

/// The text, of at most so many characters.
pub(super) async fn text(
    bus: &Bus,
    object: &Object,
    most: usize,
    patience: Duration,
) -> Result<String, Fault> {
    let length = length(bus, object, patience).await?;
    // One more than is told, so that a cut is seen; never all of a text of gigabytes.
    let end = length.min(i32::try_from(most + 1).unwrap_or(i32::MAX));
    if end <= 0 {
        return Ok(String::new());
    }
    let text: String = bus.ask(object, TEXT, "GetText", &(0, end), patience).await?;
    Ok(cut(&text, most))
}

async fn actions(bus: &Bus, object: &Object, patience: Duration) -> Result<Vec<String>, Fault> {
    let all: Vec<(String, String, String)> = bus.ask(object, ACTION, "GetActions", &(), patience).await?;
    let mut names = Vec::new();
    for (number, (name, _, _)) in (0_i32..).zip(all.into_iter().take(MOST_ACTIONS)) {
        // Browsers have no name in the user's language, which is what this list has.
        let name = match name.as_str() {
            "" => bus.ask(object, ACTION, "GetName", &(number,), patience).await?,
            _ => name,
        };
        names.push(cut(&name, MOST_NAME));
    }
    Ok(names)
}

/// A text without the marks that stand for what is embedded in it; `None` when nothing else was there.
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
    fn marks_of_what_is_embedded_are_no_text() {
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
