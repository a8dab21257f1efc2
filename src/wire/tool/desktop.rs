//! Arguments and results of the tools that see and act on a screen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::desktop::element::Element;
use crate::desktop::screenshot::ScreenshotFrame;

/// `screenshot`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct Screenshot {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// jpeg (default), png or webp. A large png or webp may be smaller than the screen: then pass its frame
    /// to click.
    #[serde(default)]
    pub format: Option<String>,
    /// Scale factor for width and height, above 0 and at most 1 (default).
    #[serde(default)]
    pub scale: Option<f64>,
    /// Only this part of the screen: x,y,width,height in screen pixels.
    #[serde(default)]
    pub region: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

impl Screenshot {
    /// The whole boot screen of a computer, as jpeg.
    pub fn of(computer_id: &str) -> Self {
        let computer_id = computer_id.to_owned();
        Self { computer_id, format: None, scale: None, region: None, screen: None }
    }
}

/// `get_timeline`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct GetTimeline {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Only actions on the screen with this id.
    #[serde(default)]
    pub screen: Option<String>,
    /// Only actions by this actor, KIND:ID, or by this kind: key, person, connection, thread, password or
    /// template.
    #[serde(default)]
    pub by: Option<String>,
    /// Only actions at or after this time; ISO 8601 with a time zone.
    #[serde(default)]
    pub from: Option<String>,
    /// Only actions at or before this time; ISO 8601 with a time zone.
    #[serde(default)]
    pub to: Option<String>,
    /// The next_cursor of the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// Metadata of a screenshot.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ScreenshotInfo {
    /// Width, in pixels.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
    /// image/jpeg, image/png or image/webp.
    pub mime_type: String,
    /// Frame, scale and screen.
    #[serde(flatten)]
    pub shown: ScreenshotFrame,
}

/// `click`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ClickAt {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Distance from the left edge of the screen, in pixels.
    pub x: f64,
    /// Distance from the top edge of the screen, in pixels.
    pub y: f64,
    /// left (default), right, middle, back or forward.
    #[serde(default)]
    pub button: Option<String>,
    /// True for a double click.
    #[serde(default)]
    pub double: Option<bool>,
    /// Modifier keys to hold during the click: ctrl, shift, alt, super.
    #[serde(default)]
    pub modifiers: Option<Vec<String>>,
    /// Frame of the screenshot from which x and y were read: they are its pixels, for any scale and region.
    /// When absent, x and y are screen pixels.
    #[serde(default)]
    pub frame: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `move`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct MoveTo {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Distance from the left edge of the screen, in pixels.
    pub x: f64,
    /// Distance from the top edge of the screen, in pixels.
    pub y: f64,
    /// Frame of the screenshot from which the coordinates were read: they are its pixels, for any scale and
    /// region. When absent, they are screen pixels.
    #[serde(default)]
    pub frame: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `drag`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct DragBetween {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// X of the start point, in pixels.
    pub start_x: f64,
    /// Y of the start point, in pixels.
    pub start_y: f64,
    /// X of the end point, in pixels.
    pub end_x: f64,
    /// Y of the end point, in pixels.
    pub end_y: f64,
    /// left (default), right, middle, back or forward.
    #[serde(default)]
    pub button: Option<String>,
    /// Duration of the movement in seconds, at most 30; 0.5 when absent.
    #[serde(default)]
    pub duration: Option<f64>,
    /// Modifier keys to hold during the drag: ctrl, shift, alt, super.
    #[serde(default)]
    pub modifiers: Option<Vec<String>>,
    /// Frame of the screenshot from which the coordinates were read: they are its pixels, for any scale and
    /// region. When absent, they are screen pixels.
    #[serde(default)]
    pub frame: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `scroll`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ScrollBy {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// up, down, left or right.
    pub direction: String,
    /// Number of wheel steps, at most 500; 3 when absent.
    #[serde(default)]
    pub amount: Option<f64>,
    /// X of the point at which to scroll, in pixels; the pointer's when absent.
    #[serde(default)]
    pub x: Option<f64>,
    /// Y of the point at which to scroll, in pixels; the pointer's when absent.
    #[serde(default)]
    pub y: Option<f64>,
    /// Modifier keys to hold during the scroll: ctrl, shift, alt, super.
    #[serde(default)]
    pub modifiers: Option<Vec<String>>,
    /// Frame of the screenshot from which the coordinates were read: they are its pixels, for any scale and
    /// region. When absent, they are screen pixels.
    #[serde(default)]
    pub frame: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `wait`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct WaitFor {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Time to wait in seconds, at most 60.
    pub seconds: f64,
}

/// `type`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct TypeText {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Any text; a line break is Enter, a tab is Tab. {{secret:NAME}} types the value of a stored secret,
    /// which you do not need to know.
    pub text: String,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `key`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct PressKey {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// A key or a combination: Enter, Page_Up, ctrl+c, ctrl+shift+Tab.
    pub key: String,
    /// Number of presses, 1 (default) to 100.
    #[serde(default)]
    pub repeat: Option<u32>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `list_elements`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ListElements {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Only elements with this role, for example button, entry, check box or link.
    #[serde(default)]
    pub role: Option<String>,
    /// Only elements whose name contains this text, ignoring case.
    #[serde(default)]
    pub name: Option<String>,
    /// Only elements of windows whose title contains this text, ignoring case.
    #[serde(default)]
    pub window: Option<String>,
    /// visible (default), or all: also elements that are scrolled out of view, hidden or minimized.
    #[serde(default)]
    pub include: Option<String>,
    /// Largest number of elements, 1 to 500; 200 when absent.
    #[serde(default)]
    pub max_nodes: Option<u32>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// `marked_screenshot`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct MarkElements {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Only elements with this role; when absent, elements that accept input are marked.
    #[serde(default)]
    pub role: Option<String>,
    /// Only elements whose name contains this text, ignoring case.
    #[serde(default)]
    pub name: Option<String>,
    /// Only elements of windows whose title contains this text, ignoring case.
    #[serde(default)]
    pub window: Option<String>,
    /// Largest number of marks, 1 to 500; 100 when absent.
    #[serde(default)]
    pub max_nodes: Option<u32>,
    /// Scale factor for width and height, above 0 and at most 1 (default).
    #[serde(default)]
    pub scale: Option<f64>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default)]
    pub screen: Option<String>,
}

/// Metadata of a screenshot with marks, and the marked elements.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct MarkedElements {
    /// Width, in pixels.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
    /// image/jpeg.
    pub mime_type: String,
    /// Marked elements; mark is the number in the image. Their boxes are in pixels of the screen.
    pub elements: Vec<Element>,
    /// True when elements may be missing.
    pub truncated: bool,
    /// Id of the screen.
    pub screen: String,
}

/// `click_element`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ClickElement {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the element.
    pub element_id: String,
    /// pointer (default): a click in the middle of its visible part; action: the program performs its first
    /// action.
    #[serde(default)]
    pub method: Option<String>,
    /// left (default), right or middle.
    #[serde(default)]
    pub button: Option<String>,
    /// True for a double click.
    #[serde(default)]
    pub double: Option<bool>,
}

/// `set_element_value`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct SetElementValue {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the element.
    pub element_id: String,
    /// New text of an entry; digits for a slider or another element with a number.
    pub value: String,
}

/// `focus_element`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct OneElement {
    /// The computer: its id or instance_id.
    pub computer_id: String,
    /// Id of the element.
    pub element_id: String,
}
