//! Elements of the accessibility tree (AT-SPI).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::field;

/// The query of `GET elements`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ElementsQuery {
    /// Largest number of elements, 1 to 5000; 500 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 5000)]
    pub max_nodes: Option<u32>,
    /// Largest depth below a window, 0 (the window itself) to 100; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 100)]
    pub max_depth: Option<u32>,
    /// Timeout in milliseconds, 50 to 10000; 2000 when absent. The answer then has the elements found so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 50, maximum = 10_000)]
    pub timeout_ms: Option<u32>,
    /// Only elements with this role, for example `button` or `check box`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Only elements whose name contains this text, ignoring case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only elements of windows whose title contains this text, ignoring case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// `visible` (default): visible elements; `all`: also elements that are scrolled out of view, hidden or
    /// minimized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(visible|all)$")]
    pub include: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// The query of `GET elements/marked`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MarkedQuery {
    /// Largest number of marks, 1 to 500; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub max_nodes: Option<u32>,
    /// Timeout in milliseconds, 50 to 10000; 2000 when absent. The answer then has the elements found so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 50, maximum = 10_000)]
    pub timeout_ms: Option<u32>,
    /// Only elements with this role; when absent, elements that accept input are marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Only elements whose name contains this text, ignoring case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only elements of windows whose title contains this text, ignoring case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// `png` (default) or `jpeg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(png|jpeg)$")]
    pub format: Option<String>,
    /// JPEG quality, 1 to 100; 80 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 100)]
    pub quality: Option<u8>,
    /// Scale factor for width and height, above 0 and at most 1. Boxes stay in pixels of the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(exclusive_minimum = 0, maximum = 1)]
    pub scale: Option<f64>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// An element of a program: a button, an entry, a heading. Long texts are truncated and end in `…`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Element {
    /// Id, stable while the element exists and is among the 20,000 elements that the agent remembers.
    pub id: String,
    /// Number of its mark in the screenshot, if marks were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// AT-SPI role, for example `button`, `entry`, `check box`, `link`.
    pub role: String,
    /// Name; empty when the program sets none.
    pub name: String,
    /// Description, if the program sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Value of a slider, spin button, progress bar or similar.
    #[serde(serialize_with = "field::number_or_null", default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Text of an entry, or of an element that has text and no name; never that of a password entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Left edge in screen pixels; it may be outside of the screen.
    pub x: i32,
    /// Top edge in screen pixels; it may be outside of the screen.
    pub y: i32,
    /// Width, in pixels; 0 when it is not on the screen.
    pub width: i32,
    /// Height, in pixels.
    pub height: i32,
    /// AT-SPI states, for example `enabled`, `focused`, `checked`, `showing`.
    pub states: Vec<String>,
    /// Actions of the element, for example `click`, `press`, `activate`. `click` with `method: action` uses
    /// the first.
    pub actions: Vec<String>,
    /// Id of its parent element; in a list, of the nearest ancestor that is also in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Title of its window.
    pub window: String,
    /// Name of its program.
    pub app: String,
    /// Process id of its program in the computer.
    pub pid: u32,
}

/// A program that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedApp {
    /// Name of its process.
    pub app: String,
    /// Process id; 0 when the process ended before it could be read.
    pub pid: u32,
    /// Reason why its elements are not listed.
    pub reason: String,
}

/// `GET elements`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElementList {
    /// Elements: visible ones first, the focused program and topmost windows before others, each parent
    /// before its children.
    pub elements: Vec<Element>,
    /// True when matching elements may be missing.
    pub truncated: bool,
    /// Reason: `max_nodes`, `max_depth`, `timeout` or `children` (an element has more children than are
    /// read).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Programs that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedApp>,
    /// Number of objects that were read.
    pub nodes_seen: u32,
    /// Duration of the walk in milliseconds.
    pub took_ms: u64,
    /// Id of the screen.
    pub screen: String,
}

/// `GET elements/marked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MarkedScreenshot {
    /// Raw base64, without a `data:` prefix.
    pub image: String,
    /// `image/png` or `image/jpeg`.
    pub mime_type: String,
    /// Width after scaling, in pixels.
    pub width: u32,
    /// Height after scaling, in pixels.
    pub height: u32,
    /// Marked elements; `mark` is the number in the screenshot.
    #[serde(flatten)]
    pub list: ElementList,
}

/// `POST elements/{element_id}/click`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"button": "left"}))]
#[serde(deny_unknown_fields)]
pub struct ElementClick {
    /// `pointer` (default): a click in the middle of its visible part; `action`: the program performs the
    /// element's first action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(pointer|action)$")]
    pub method: Option<String>,
    /// `left` (default), `right` or `middle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle)$")]
    pub button: Option<String>,
    /// True for a double click.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double: Option<bool>,
}

/// New value of an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ElementValue {
    /// Number, for sliders, spin buttons and similar.
    Number(f64),
    /// Text, for entries and other editable text; digits for an element with a number.
    Text(String),
}

/// `POST elements/{element_id}/set_value`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"value": "hello"}))]
#[serde(deny_unknown_fields)]
pub struct ElementSetValue {
    /// New text or number.
    pub value: ElementValue,
}

/// Result of an action on an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ElementActed)]
pub struct ElementActionResult {
    /// True when the click was delivered, when the element has the new value, or when it reports that it has
    /// the focus.
    pub success: bool,
    /// `click`, `double_click`, `set_value` or `focus`.
    pub action: String,
    /// X of the click, in screen pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<i32>,
    /// Y of the click, in screen pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<i32>,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The element after the action; null when it does not exist any more (a closed dialog) or its program
    /// does not answer.
    pub element: Option<Element>,
}
