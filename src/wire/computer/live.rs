//! Messages of the console's live records (docs/console.md#live-records).

use serde::{Deserialize, Serialize};

use crate::computer::Computer;
use crate::desktop::action::control::ScreenControl;

/// A message to a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveMessage {
    /// A computer that the page has not seen, or its changed record.
    Computer {
        /// The record, as in lists.
        computer: Box<Computer>,
    },
    /// A computer was deleted, or the person does not reach it any more.
    Gone {
        /// Id of the computer.
        id: String,
    },
    /// The page has seen all computers.
    Ready,
    /// A screen in view may show something else.
    Screen {
        /// Id of the computer.
        id: String,
        /// Id of the screen.
        screen: String,
    },
    /// There is no picture of a screen in view, because it could not be taken. A picture itself is a binary
    /// message.
    NoPicture {
        /// Id of the computer.
        id: String,
        /// Why, for people.
        error: String,
    },
    /// The control of a screen, or its request for help.
    Control {
        /// Id of the computer.
        id: String,
        /// Id of the screen.
        screen: String,
        /// The control.
        control: Box<ScreenControl>,
    },
    /// A run of a thread began or ended.
    Thread {
        /// Id of the thread.
        id: String,
        /// Id of its computer.
        computer_id: String,
        /// State of its last run, such as `running` or `done`.
        status: String,
    },
}

/// A message of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum LiveClientMessage {
    /// Replaces the computers that are in view.
    Watch {
        /// Ids of the computers.
        ids: Vec<String>,
        /// Pixels that a picture of a screen has about; `None` for no pictures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pixels: Option<u32>,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn messages_have_the_form_of_the_documentation() {
        let control = Box::new(ScreenControl { screen: "default".to_owned(), ..ScreenControl::default() });
        let text = str::to_owned;
        for (message, expected) in [
            (LiveMessage::Ready, json!({"type": "ready"})),
            (LiveMessage::Gone { id: text("c") }, json!({"type": "gone", "id": "c"})),
            (
                LiveMessage::Screen { id: text("c"), screen: text("default") },
                json!({"type": "screen", "id": "c", "screen": "default"}),
            ),
            (
                LiveMessage::NoPicture { id: text("c"), error: text("busy") },
                json!({"type": "no_picture", "id": "c", "error": "busy"}),
            ),
            (
                LiveMessage::Control { id: text("c"), screen: text("default"), control },
                json!({"type": "control", "id": "c", "screen": "default",
                    "control": {"screen": "default", "revision": 0, "holder": null}}),
            ),
            (
                LiveMessage::Thread { id: text("t"), computer_id: text("c"), status: text("done") },
                json!({"type": "thread", "id": "t", "computer_id": "c", "status": "done"}),
            ),
        ] {
            assert_eq!(serde_json::to_value(message).unwrap(), expected);
        }
    }

    #[test]
    fn a_page_sends_what_is_in_view_and_nothing_else() {
        let read = |value: Value| serde_json::from_value::<LiveClientMessage>(value);
        let watch = |pixels| LiveClientMessage::Watch { ids: vec!["c".to_owned()], pixels };
        assert_eq!(read(json!({"type": "watch", "ids": ["c"]})).unwrap(), watch(None));
        assert_eq!(read(json!({"type": "watch", "ids": ["c"], "pixels": 9})).unwrap(), watch(Some(9)));
        for bad in [
            json!({"type": "watch"}),
            json!({"type": "watch", "ids": "c"}),
            json!({"type": "watch", "ids": [1]}),
            json!({"type": "watch", "ids": [], "pixels": -1}),
            json!({"type": "watch", "ids": [], "more": 1}),
            json!({"type": "shout", "ids": []}),
            json!([]),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }
}
