//! Desktop actions: the table of all actions, and their bodies and answers, the same for the controller and
//! the agent (docs/api/actions.md).

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

mod body;
pub mod control;
mod keyboard;
mod pointer;
mod screen;
pub mod timeline;
mod wait;

use crate::desktop::effect::{Options, Settle};
use crate::desktop::screenshot::ScreenshotQuery;

pub use body::{ActionBody, Coordinates};
pub use keyboard::{KeyPress, Type};
pub use pointer::{Click, Drag, Move, PointerButton, Scroll};
pub use screen::{CursorPosition, ResizeScreen, Screen, ScreenList, ScreenQuery, ScreenSize};
pub use wait::{PointerQuery, Wait, WaitChange, WaitStable, Zoom};

/// The table of all actions. It calls the macro `$consumer` with one row for each action: documentation,
/// variant of `Action`, body type and name. The braces of a row describe its route `POST /<name>`, which
/// exists on the controller and on the agent; `handler` is also the agent's method that performs the action.
/// `wait` has its own handlers, because it needs no screen. The last three are actions only in a batch.
#[macro_export]
macro_rules! for_each_action {
    ($consumer:ident) => {
        $consumer! {
            /// `POST click`.
            Click(Click) = "click" {
                handler: click,
                summary: "Clicks once, twice or three times, optionally with modifiers held.",
                answer: "The input was delivered",
            },
            /// `POST move`.
            Move(Move) = "move" {
                handler: pointer_move,
                summary: "Moves the pointer.",
                answer: "The input was delivered",
            },
            /// `POST mouse_down`.
            MouseDown(PointerButton) = "mouse_down" {
                handler: mouse_down,
                summary: "Presses a mouse button and holds it.",
                answer: "The input was delivered",
            },
            /// `POST mouse_up`.
            MouseUp(PointerButton) = "mouse_up" {
                handler: mouse_up,
                summary: "Releases a mouse button.",
                answer: "The input was delivered",
            },
            /// `POST drag`.
            Drag(Drag) = "drag" {
                handler: drag,
                summary: "Drags from one point to another, or along a path.",
                answer: "The input was delivered",
            },
            /// `POST scroll`.
            Scroll(Scroll) = "scroll" {
                handler: scroll,
                summary: "Scrolls.",
                answer: "The input was delivered",
            },
            /// `POST type`.
            Type(Type) = "type" {
                handler: type_text,
                summary: "Types a text.",
                answer: "The input was delivered",
            },
            /// `POST key`.
            Key(KeyPress) = "key" {
                handler: key,
                summary: "Presses a key, a combination, or a sequence of them.",
                answer: "The input was delivered",
            },
            /// `POST key_down`.
            KeyDown(KeyPress) = "key_down" {
                handler: key_down,
                summary: "Presses a key and holds it.",
                answer: "The input was delivered",
            },
            /// `POST key_up`.
            KeyUp(KeyPress) = "key_up" {
                handler: key_up,
                summary: "Releases a key.",
                answer: "The input was delivered",
            },
            /// `POST wait`.
            Wait(Wait) = "wait",
            /// `POST wait_stable`.
            WaitStable(WaitStable) = "wait_stable" {
                handler: wait_stable,
                summary: "Waits until the screen stops changing.",
                answer: "The wait has ended",
            },
            /// `POST wait_change`.
            WaitChange(WaitChange) = "wait_change" {
                handler: wait_change,
                summary: "Waits until something on the screen changes.",
                answer: "The wait has ended",
            },
            /// A screenshot in base64.
            Screenshot(ScreenshotQuery) = "screenshot",
            /// A part of the screen in base64.
            Zoom(Zoom) = "zoom",
            /// Where the pointer is.
            CursorPosition(PointerQuery) = "cursor_position",
        }
    };
}

macro_rules! action_enum {
    ($($(#[$doc:meta])* $variant:ident($body:ident) = $name:tt $({ $($route:tt)* })?,)*) => {
        /// One action of a batch: its name, and the fields of the route with that name.
        #[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
        #[serde(tag = "action")]
        pub enum Action {
            $($(#[$doc])* #[serde(rename = $name)] $variant($body),)*
        }

        impl Action {
            /// Name of every action.
            pub const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];

            /// Returns the name: the tag in a batch and the path of the route.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            /// Returns the body.
            pub fn body(&self) -> &dyn ActionBody {
                match self {
                    $(Self::$variant(body) => body,)*
                }
            }

            /// Returns the body, to change it.
            pub fn body_mut(&mut self) -> &mut dyn ActionBody {
                match self {
                    $(Self::$variant(body) => body,)*
                }
            }
        }

        impl Serialize for ActionFields<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.0 {
                    $(Action::$variant(body) => body.serialize(serializer),)*
                }
            }
        }
    };
}

for_each_action!(action_enum);

impl Action {
    /// Returns the common options; `None` for actions that only observe or wait.
    pub fn options(&self) -> Option<&Options> {
        self.body().options()
    }

    /// Returns how long the action takes at most, with the wait for a stable screen after it.
    pub fn duration(&self) -> Duration {
        let settle = self.options().and_then(|options| options.settle.as_ref());
        // Both send one event, but share their body with `key`, whose duration counts presses.
        let is_one_event = matches!(self, Self::KeyDown(_) | Self::KeyUp(_));
        let own = if is_one_event { Duration::ZERO } else { self.body().duration() };
        own + settle.map_or(Duration::ZERO, Settle::duration)
    }

    /// Returns the fields without the name: the request body of the action's route.
    pub fn fields(&self) -> ActionFields<'_> {
        ActionFields(self)
    }
}

/// Fields of an action without its name.
#[derive(Debug)]
pub struct ActionFields<'a>(&'a Action);

/// The answer to a successful request without a result: `{success: true}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Done)]
pub struct Acknowledgement {
    /// Always true; a failure has an error body.
    pub success: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_fields_of_an_action_have_no_name() {
        let action: Action = serde_json::from_value(json!({"action": "move", "x": 1.0, "y": 2.0})).unwrap();
        assert_eq!(action.name(), "move");
        assert_eq!(serde_json::to_value(action.fields()).unwrap(), json!({"x": 1.0, "y": 2.0}));
        let tagged = serde_json::to_value(&action).unwrap();
        assert_eq!(tagged, json!({"action": "move", "x": 1.0, "y": 2.0}));
    }

    #[test]
    fn a_press_and_a_release_of_a_key_take_no_time() {
        let duration = |name| {
            let action: Action =
                serde_json::from_value(json!({"action": name, "key": "a", "repeat": 100})).unwrap();
            action.duration()
        };
        assert_eq!((duration("key_down"), duration("key_up")), (Duration::ZERO, Duration::ZERO));
        assert_eq!(duration("key"), Duration::from_secs(2));
    }

    #[test]
    fn the_positions_of_a_drag_begin_with_its_start() {
        let first = |body| {
            let mut action: Action = serde_json::from_value(body).unwrap();
            let positions = action.body_mut().positions();
            positions[0].each_ref().map(|axis| axis.as_deref().copied())
        };
        let ends = json!({"action": "drag", "start_x": 1, "start_y": 2, "end_x": 3, "end_y": 4});
        assert_eq!(first(ends), [Some(1.0), Some(2.0)]);
        let path = json!({"action": "drag", "path": [[5, 6], [7, 8]]});
        assert_eq!(first(path), [Some(5.0), Some(6.0)]);
        assert_eq!(first(json!({"action": "scroll", "direction": "up", "y": 9})), [None, Some(9.0)]);
    }
}
