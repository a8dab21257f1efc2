//! How is what a program offers on a screen told? Elements of the accessibility tree (AT-SPI).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// `GET elements`' query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ElementsQuery {
    /// Most elements to list, 1 to 5000; 500 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 5000)]
    pub max_nodes: Option<u32>,
    /// Deepest level below a window, 0 (the window itself) to 100; 50 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(maximum = 100)]
    pub max_depth: Option<u32>,
    /// Milliseconds after which the walk ends with what it has, 50 to 10000; 2000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 50, maximum = 10_000)]
    pub timeout_ms: Option<u32>,
    /// Only elements of this role, for example `button` or `check box`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Only elements whose name has this in it, whatever the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only elements of windows whose title has this in it, whatever the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// `visible` (default): what is shown now; `all`: also what is scrolled away, hidden or minimised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(pattern = "^(visible|all)$")]
    pub include: Option<String>,
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// `GET elements/marked`'s query.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MarkedQuery {
    /// Most marks, 1 to 500; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 500)]
    pub max_nodes: Option<u32>,
    /// Milliseconds after which the walk ends with what it has, 50 to 10000; 2000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 50, maximum = 10_000)]
    pub timeout_ms: Option<u32>,
    /// Only elements of this role; without it, those that take input are marked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Only elements whose name has this in it, whatever the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only elements of windows whose title has this in it, whatever the case.
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
    /// Factor on both sides, above 0 and at most 1. Boxes stay in pixels of the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(exclusive_minimum = 0, maximum = 1)]
    pub scale: Option<f64>,
    /// Screen id; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
}

/// One thing that a program shows: a button, an entry, a heading. Long texts are cut and end in `…`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Element {
    /// Stable for as long as the element exists and is not forgotten (20,000 are remembered).
    pub id: String,
    /// Its number in the picture, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// As AT-SPI names it, for example `button`, `entry`, `check box`, `link`.
    pub role: String,
    /// What it is called; empty when the program gives it no name.
    pub name: String,
    /// More than the name, where the program says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its number, of sliders, spin buttons, progress bars and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its text, of entries and of what has text and no name; never a password's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Left edge on the screen in pixels; may lie outside.
    pub x: i32,
    /// Top edge on the screen in pixels; may lie outside.
    pub y: i32,
    /// Pixels across; 0 when it has no place on the screen.
    pub width: i32,
    /// Pixels down.
    pub height: i32,
    /// As AT-SPI names them, for example `enabled`, `focused`, `checked`, `showing`.
    pub states: Vec<String>,
    /// What `click` with `method: action` can do, for example `click`, `press`, `activate`; the first is done.
    pub actions: Vec<String>,
    /// In a list, the id of the nearest element around it that is in the list as well; alone, of the one around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Title of its window.
    pub window: String,
    /// What its program calls itself.
    pub app: String,
    /// Its program's process id in the computer.
    pub pid: u32,
}

/// A program that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedApp {
    /// Its process's name.
    pub app: String,
    /// Its process id; 0 when it went before it could be told.
    pub pid: u32,
    /// Why.
    pub reason: String,
}

/// `GET elements`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElementList {
    /// What is visible first, the focused program and the windows on top before others, each from the window inwards.
    pub elements: Vec<Element>,
    /// True when something that was asked for may be missing.
    pub truncated: bool,
    /// Why: `max_nodes`, `max_depth`, `timeout`, `children` (one element has more than are looked at).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Programs that could not be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedApp>,
    /// Objects that were looked at.
    pub nodes_seen: u32,
    /// Milliseconds that the walk took.
    pub took_ms: u64,
    /// The screen's id.
    pub screen: String,
}

/// `GET elements/marked`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MarkedScreenshot {
    /// Raw base64, without a `data:` prefix.
    pub image: String,
    /// `image/png` or `image/jpeg`.
    pub mime_type: String,
    /// Pixels across, after scaling.
    pub width: u32,
    /// Pixels down, after scaling.
    pub height: u32,
    /// The marked elements; `mark` is the number in the picture.
    #[serde(flatten)]
    pub list: ElementList,
}

/// `POST elements/{element_id}/click`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"button": "left"}))]
pub struct ElementClick {
    /// `pointer` (default): a real click in the middle of what is visible of it; `action`: the program is told to do
    /// the element's first action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(pointer|action)$")]
    pub method: Option<String>,
    /// `left` (default), `right` or `middle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(left|right|middle)$")]
    pub button: Option<String>,
    /// Two clicks instead of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double: Option<bool>,
}

/// What an element is set to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ElementValue {
    /// For sliders, spin buttons and the like.
    Number(f64),
    /// For entries and other editable text; a number's digits for what holds a number.
    Text(String),
}

/// `POST elements/{element_id}/set_value`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"value": "hello"}))]
pub struct ElementSetValue {
    /// The new text or number.
    pub value: ElementValue,
}

/// What came of an action on an element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElementActed {
    /// True when a click was delivered, when the value read back is the one that was set, or when the element says
    /// that it has the focus.
    pub success: bool,
    /// `click`, `double_click`, `set_value` or `focus`.
    pub action: String,
    /// Where the pointer clicked, in pixels of the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<i32>,
    /// Where the pointer clicked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<i32>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The element afterwards; null when it is gone (a dialog that was closed) or its program does not answer.
    pub element: Option<Element>,
}
