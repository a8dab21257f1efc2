//! Reader of the fields of a vendor's action, whose errors name the field.

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Longest text of the request that an error quotes, in characters.
const MAX_QUOTED: usize = 40;

/// Position in a picture or on a screen: X and Y in pixels.
pub type Coordinate = [f64; 2];

/// Reason why a vendor's action is refused. Printed, it is a sentence that begins with the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VendorActionError {
    /// The wrong field; `None` when the action is not an object.
    field: Option<Cow<'static, str>>,
    reason: String,
}

impl VendorActionError {
    /// The field is wrong; `reason` continues the sentence after its name.
    pub(super) fn of_field(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field: Some(Cow::Borrowed(field)), reason: reason.into() }
    }

    /// No action has this name.
    pub(super) fn unknown_action(field: &'static str, name: &str, vocabulary: &str) -> Self {
        Self::of_field(field, format!("{:?} is not an action of {vocabulary}", quoted(name)))
    }

    /// Returns the sentence for the action at a place in `actions`.
    pub(super) fn of_index(&self, index: usize) -> String {
        let separator = if self.field.is_some() { '.' } else { ' ' };
        format!("actions[{index}]{separator}{self}")
    }
}

impl fmt::Display for VendorActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field} {}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for VendorActionError {}

/// Result of reading a field.
type ReadResult<T> = Result<T, VendorActionError>;

/// Fields of one action that are not read yet. A null field is absent, because clients send the fields that
/// an action does not have as null.
#[derive(Debug)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// Returns the fields of an action.
    ///
    /// # Errors
    /// When it is not an object.
    pub(super) fn of(action: Value) -> ReadResult<Self> {
        let Value::Object(mut fields) = action else {
            return Err(VendorActionError { field: None, reason: "must be an object".to_owned() });
        };
        fields.retain(|_, value| !value.is_null());
        Ok(Self(fields))
    }

    fn read<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> ReadResult<Option<T>> {
        let Some(value) = self.0.remove(name) else { return Ok(None) };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(VendorActionError::of_field(name, format!("must be {expected}"))),
        }
    }

    /// Reads a text.
    pub(super) fn text(&mut self, name: &'static str) -> ReadResult<Option<String>> {
        self.value(name, "a text")
    }

    /// Reads a list of texts.
    pub(super) fn texts(&mut self, name: &'static str) -> ReadResult<Option<Vec<String>>> {
        self.value(name, "a list of texts")
    }

    /// Reads a number.
    pub(super) fn number(&mut self, name: &'static str) -> ReadResult<Option<f64>> {
        self.read(name, "a number", |value| value.as_f64())
    }

    /// Reads X and Y.
    pub(super) fn coordinate(&mut self, name: &'static str) -> ReadResult<Option<Coordinate>> {
        self.read(name, "[x, y]: two numbers of at least 0", positions)
    }

    /// Reads the corners of a rectangle.
    pub(super) fn corners(&mut self, name: &'static str) -> ReadResult<Option<[f64; 4]>> {
        self.read(name, "[x0, y0, x1, y1]: four numbers of at least 0", positions)
    }

    /// Reads a number of at least 0.
    pub(super) fn position(&mut self, name: &'static str) -> ReadResult<Option<f64>> {
        self.read(name, "a number of at least 0", |value| position(&value))
    }

    /// Reads a value of any other type; `expected` describes it.
    pub(super) fn value<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
        expected: &str,
    ) -> ReadResult<Option<T>> {
        self.read(name, expected, |value| serde_json::from_value(value).ok())
    }

    /// Checks that all fields were read.
    ///
    /// # Errors
    /// When the action has another field.
    pub(super) fn finish(self, action: &str) -> ReadResult<()> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(other) => Err(VendorActionError {
                field: Some(Cow::Owned(quoted(other))),
                reason: format!("is not a field of {action}"),
            }),
        }
    }
}

/// Returns the value of a field that the action must have.
///
/// # Errors
/// When it is absent.
pub(super) fn required<T>(name: &'static str, value: Option<T>) -> ReadResult<T> {
    value.ok_or_else(|| VendorActionError::of_field(name, "is required"))
}

/// Checks that a number is in a range from 0.
///
/// # Errors
/// When it is not.
pub(super) fn check_range(name: &'static str, value: f64, most: f64) -> ReadResult<f64> {
    if (0.0..=most).contains(&value) {
        return Ok(value);
    }
    Err(VendorActionError::of_field(name, format!("must be 0 to {most}")))
}

fn quoted(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}

fn position(value: &Value) -> Option<f64> {
    value.as_f64().filter(|at| *at >= 0.0)
}

fn positions<const N: usize>(value: Value) -> Option<[f64; N]> {
    let numbers: Option<Vec<f64>> = value.as_array()?.iter().map(position).collect();
    numbers?.try_into().ok()
}
