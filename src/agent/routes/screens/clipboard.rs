//! Routes `/clipboard`: the clipboard of a screen.

use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use axum::{Json as Answer, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::display::{ClipboardItem, Displays, Selection};
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::{Query, parse_object, read_body};
use hotdesk_http::headers::actor::ActingAs;
use hotdesk_wire::desktop::action::Acknowledgement;
use hotdesk_wire::desktop::clipboard::{Clipboard, ClipboardQuery, MAX_BODY_BYTES, SetClipboard};

/// Routes of the clipboard.
pub fn router(displays: Displays) -> Router {
    Router::new().route("/clipboard", get(read).put(set)).with_state(displays)
}

async fn read(
    State(displays): State<Displays>,
    Query(query): Query<ClipboardQuery>,
) -> Result<Answer<Clipboard>> {
    let selection = Selection::parse(query.selection.as_deref())?;
    let clipboard = displays.screen(query.screen.as_deref())?.clipboard_get(selection).await?;
    let (mime_type, text, image) = match clipboard.content {
        None => (None, None, None),
        Some(ClipboardItem::Text(text)) => (Some("text/plain;charset=utf-8"), Some(text), None),
        Some(ClipboardItem::Png(bytes)) => (Some("image/png"), None, Some(STANDARD.encode(bytes))),
    };
    Ok(Answer(Clipboard { mime_type: mime_type.map(str::to_owned), text, image, targets: clipboard.targets }))
}

async fn set(
    State(displays): State<Displays>,
    ActingAs(by): ActingAs,
    Query(query): Query<ClipboardQuery>,
    body: Body,
) -> Result<Answer<Acknowledgement>> {
    let selection = Selection::parse(query.selection.as_deref())?;
    let content = content(parse_object(&read_body(body, MAX_BODY_BYTES).await?)?)?;
    let screen = displays.screen(query.screen.as_deref())?;
    let _input = screen.control().admit(by).await?;
    screen.clipboard_set(selection, content).await?;
    Ok(Answer(Acknowledgement { success: true }))
}

/// Returns the content to put on the clipboard.
///
/// # Errors
/// `Invalid` when the body has neither or both of text and image, another type, or an image that is not
/// base64.
fn content(body: SetClipboard) -> Result<ClipboardItem> {
    let kind = body.mime_type.as_deref();
    match (body.text, body.image) {
        (Some(text), None) => match kind {
            None | Some("text/plain" | "text/plain;charset=utf-8") => Ok(ClipboardItem::Text(text)),
            Some(_) => Err(Error::invalid("mime_type of text must be text/plain").into()),
        },
        (None, Some(image)) => match kind {
            None | Some("image/png") => {
                let bytes = STANDARD.decode(image);
                let bytes = bytes.map_err(|error| Error::invalid(format!("image is not base64: {error}")))?;
                Ok(ClipboardItem::Png(bytes))
            }
            Some(_) => Err(Error::invalid("mime_type of an image must be image/png").into()),
        },
        (None, None) | (Some(_), Some(_)) => {
            Err(Error::invalid("exactly one of text and image is required").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_text_or_an_image_with_its_type() {
        let body = |text: Option<&str>, image: Option<&str>, kind: Option<&str>| {
            content(SetClipboard {
                text: text.map(str::to_owned),
                image: image.map(str::to_owned),
                mime_type: kind.map(str::to_owned),
            })
        };
        assert_eq!(body(Some(""), None, None).unwrap(), ClipboardItem::Text(String::new()));
        assert_eq!(body(None, Some("AAE="), Some("image/png")).unwrap(), ClipboardItem::Png(vec![0, 1]));
        for (text, image, kind) in [
            (None, None, None),
            (Some("x"), Some("AAE="), None),
            (Some("x"), None, Some("text/html")),
            (None, Some("AAE="), Some("image/jpeg")),
            (None, Some("A"), None),
            (None, Some("data:image/png;base64,AAE="), None),
        ] {
            assert!(body(text, image, kind).is_err(), "{text:?} {image:?} {kind:?}");
        }
    }
}
