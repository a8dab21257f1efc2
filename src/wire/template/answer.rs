//! Answers of a validation (docs/templates.md).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::TemplateDefinition;
use hotdesk_domain::computer::template::bounds::MAX_ERRORS;
use hotdesk_domain::computer::template::fault::{Fault, FaultCode};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::plural::plural;

/// A place in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The beginning of a document.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// One error of a definition file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateError {
    /// Path of the field, such as `apps[0].services[1].name`; empty for the document itself.
    pub field: String,
    /// Machine-readable kind (docs/templates.md#errors).
    #[schema(example = "unknown_ref")]
    pub code: String,
    /// Description of the fault in the field.
    pub message: String,
    /// Text to write instead, if one is likely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Line in the document, from 1.
    pub line: u32,
    /// Column in the line, in characters, from 1.
    pub column: u32,
}

impl TemplateError {
    /// The error in one line: `FIELD: MESSAGE (HINT)`.
    pub fn sentence(&self) -> String {
        let place = if self.field.is_empty() { String::new() } else { format!("{}: ", self.field) };
        let hint = self.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{place}{}{hint}", self.message)
    }

    /// The error of a field at a position.
    pub(super) fn new(field: impl Into<String>, position: Position, fault: Fault) -> Self {
        Self {
            field: field.into(),
            code: fault.code.as_str().to_owned(),
            message: fault.message,
            hint: fault.hint,
            line: position.line,
            column: position.column,
        }
    }
}

/// Errors of a document: the first [`MAX_ERRORS`], and the number of the others.
#[derive(Debug, Default)]
pub struct ErrorList {
    listed: Vec<TemplateError>,
    unlisted: usize,
}

impl ErrorList {
    /// Whether further errors are only counted.
    pub fn is_full(&self) -> bool {
        self.listed.len() >= MAX_ERRORS
    }

    /// Adds an error. It is made only if the list has room, because paths and hints take time and memory.
    pub fn add(&mut self, error: impl FnOnce() -> TemplateError) {
        if self.is_full() {
            self.unlisted += 1;
        } else {
            self.listed.push(error());
        }
    }

    /// The errors in the order of the document. The last one counts those that are not listed.
    pub fn finish(self) -> Vec<TemplateError> {
        let Self { listed: mut errors, unlisted } = self;
        errors.sort_by_key(|error| (error.line, error.column));
        if unlisted > 0 {
            let count = errors.len() + unlisted;
            let message = format!("the document has {count} errors, of which {} are listed", errors.len());
            errors.push(TemplateError::new("", Position::START, Fault::new(FaultCode::TooLarge, message)));
        }
        errors
    }
}

/// Answer to an invalid definition file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvalidTemplate {
    /// False; absent when the `Idempotency-Key` was used for another request.
    #[schema(required = false)]
    pub ok: bool,
    /// Number of errors, and the first one.
    pub error: String,
    /// `template_invalid`, or `idempotency_key_reused`.
    #[schema(example = "template_invalid")]
    pub code: String,
    /// Id of the request, for problem reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Every error in the order of the document, at most 101; absent like `ok`.
    #[schema(required = false)]
    pub errors: Vec<TemplateError>,
}

impl From<Vec<TemplateError>> for InvalidTemplate {
    fn from(errors: Vec<TemplateError>) -> Self {
        let count = if errors.len() > MAX_ERRORS {
            format!("more than {MAX_ERRORS} errors")
        } else {
            plural(u32::try_from(errors.len()).unwrap_or(u32::MAX), "error")
        };
        let first = errors.first().map(|error| format!(": line {}: {}", error.line, error.sentence()));
        Self {
            ok: false,
            error: format!("the template has {count}{}", first.unwrap_or_default()),
            code: ErrorCode::TemplateInvalid.as_str().to_owned(),
            request_id: None,
            errors,
        }
    }
}

/// Answer to a valid definition file.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ValidTemplate {
    /// Always true; an invalid document is answered by 422.
    pub ok: bool,
    /// The reference that the template would have, in the namespace `default`.
    #[serde(rename = "ref")]
    #[schema(example = "default/browser-lab@1.0.0")]
    pub reference: String,
    /// `sha256:` and the SHA-256 of the normalised document in hexadecimal digits.
    pub digest: String,
    /// The normalised document.
    #[schema(value_type = Object)]
    pub template: TemplateDefinition,
}

impl From<TemplateDefinition> for ValidTemplate {
    fn from(template: TemplateDefinition) -> Self {
        Self { ok: true, reference: template.reference().to_string(), digest: template.digest(), template }
    }
}
