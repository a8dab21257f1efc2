//! Results of tools: a record as structure and text, optionally an image, or an error as in the REST API.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use hotdesk_domain::error::Error;
use hotdesk_domain::error::Result;
use hotdesk_http::error_response;

/// Result of a tool: a record of a type whose schema clients know, and optionally an image.
#[derive(Debug)]
pub(super) struct ToolResult<R = Value> {
    record: R,
    image: Option<ContentBlock>,
}

impl<R> ToolResult<R> {
    /// Creates a result with a record.
    pub(super) fn of(record: R) -> Self {
        Self { record, image: None }
    }

    /// Adds an image, as base64.
    pub(super) fn with_image(self, base64: String, mime_type: String) -> Self {
        Self { image: Some(ContentBlock::image(base64, mime_type)), ..self }
    }
}

impl<R: Serialize> ToolResult<R> {
    /// Serializes the record.
    ///
    /// # Errors
    /// `Internal` when it cannot be serialized.
    pub(super) fn serialized(self) -> Result<ToolResult> {
        let record = serde_json::to_value(self.record).map_err(Error::internal)?;
        Ok(ToolResult { record, image: self.image })
    }
}

/// Converts a result for the client. A failure has the REST API's error body, and is logged like there.
pub(super) fn call_result(outcome: Result<ToolResult>, request_id: &str) -> CallToolResult {
    match outcome {
        Ok(ToolResult { record, image }) => {
            let mut result = CallToolResult::structured(record);
            result.content.extend(image);
            result
        }
        Err(error) => {
            error_response::log(&error, request_id);
            let body = serde_json::to_value(error_response::body(&error, request_id));
            let plain = |_| json!({"error": error.message, "request_id": request_id});
            CallToolResult::structured_error(body.unwrap_or_else(plain))
        }
    }
}

/// Removes the middle of a text that is longer than `most` bytes. Returns the text and the number of removed
/// bytes.
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
    use super::*;
    use hotdesk_domain::error_code::ErrorCode;

    #[test]
    fn a_failure_has_the_rest_api_s_error_body() {
        let result = call_result(
            Err(Error::conflict("It is stopped").code(ErrorCode::ComputerAsleep).context("inside")),
            "id",
        );
        let body = json!({"error": "It is stopped", "code": "computer_asleep", "request_id": "id"});
        assert_eq!((result.is_error, result.structured_content.as_ref()), (Some(true), Some(&body)));
        assert_eq!(result.content[0].as_text().map(|text| &*text.text), Some(&*body.to_string()));
    }

    #[test]
    fn an_image_follows_its_text() {
        let result = call_result(
            Ok(ToolResult::of(json!({"width": 1})).with_image("AA==".into(), "image/png".into())),
            "id",
        );
        assert_eq!((result.is_error, result.content.len()), (Some(false), 2));
        assert_eq!(result.content[1].as_image().map(|image| &*image.mime_type), Some("image/png"));
    }

    #[test]
    fn the_middle_of_a_long_text_is_left_out() {
        assert_eq!(cut("short".to_owned(), 5), ("short".to_owned(), 0));
        let (text, left_out) = cut("é".repeat(10), 9);
        assert_eq!((&*text, left_out), ("éé\n[... 12 bytes left out ...]\néé", 12));
    }
}
