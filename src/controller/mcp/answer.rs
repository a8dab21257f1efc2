//! What does a tool answer? A record, as structure and as text, perhaps with an image; or a failure in the words of the REST API.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::error_response;

/// What a tool came to.
#[derive(Debug)]
pub(super) struct Answer {
    value: Value,
    image: Option<ContentBlock>,
}

impl Answer {
    /// A record.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub(super) fn of(value: &impl Serialize) -> Result<Self> {
        Ok(Self { value: serde_json::to_value(value).map_err(Error::internal)?, image: None })
    }

    /// The same with an image, as base64.
    pub(super) fn with_image(self, base64: String, mime_type: String) -> Self {
        Self { image: Some(ContentBlock::image(base64, mime_type)), ..self }
    }
}

/// What the client hears. A failure is told as its REST twin tells it, and logged as that logs it.
pub(super) fn told(outcome: Result<Answer>, request_id: &str) -> CallToolResult {
    match outcome {
        Ok(Answer { value, image }) => {
            let mut result = CallToolResult::structured(value);
            result.content.extend(image);
            result
        }
        Err(error) => {
            error_response::log(&error, request_id);
            let body = serde_json::to_value(error_response::body(&error, request_id));
            CallToolResult::structured_error(body.unwrap_or_else(|_| Value::from(error.message)))
        }
    }
}

/// Leaves out the middle of a text of more than `most` bytes; the text, and how many bytes are left out.
pub(super) fn cut(text: String, most: usize) -> (String, u64) {
    if text.len() <= most {
        return (text, 0);
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    let left_out = tail - head;
    (format!("{}\n[... {left_out} bytes left out ...]\n{}", &text[..head], &text[tail..]), left_out as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_is_told_as_the_rest_api_tells_it() {
        let told = told(Err(Error::conflict("It is stopped").code("x").context("inside")), "id");
        let body = json!({"error": "It is stopped", "code": "x", "request_id": "id"});
        assert_eq!((told.is_error, told.structured_content.as_ref()), (Some(true), Some(&body)));
        assert_eq!(told.content[0].as_text().map(|text| &*text.text), Some(&*body.to_string()));
    }

    #[test]
    fn an_image_follows_its_text() {
        let told = told(
            Ok(Answer::of(&json!({"width": 1})).unwrap().with_image("AA==".into(), "image/png".into())),
            "id",
        );
        assert_eq!((told.is_error, told.content.len()), (Some(false), 2));
        assert_eq!(told.content[1].as_image().map(|image| &*image.mime_type), Some("image/png"));
    }

    #[test]
    fn the_middle_of_a_long_text_is_left_out() {
        assert_eq!(cut("short".to_owned(), 5), ("short".to_owned(), 0));
        let (text, left_out) = cut("é".repeat(10), 9);
        assert_eq!((&*text, left_out), ("éé\n[... 12 bytes left out ...]\néé", 12));
    }
}
