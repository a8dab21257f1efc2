//! Tools and actions that a request names.

use hotdesk_domain::error::{Error, Result};
use hotdesk_model::conversation::COMPUTER;

/// Name of the tool that runs commands.
pub const BASH: &str = "bash";
/// Tools of a run.
const TOOLS: [&str; 2] = [COMPUTER, BASH];
/// Actions of the tool `computer`, by which a request can ask for a confirmation
/// (docs.claude.com, "Computer use tool").
const COMPUTER_ACTIONS: [&str; 17] = [
    "cursor_position",
    "double_click",
    "hold_key",
    "key",
    "left_click",
    "left_click_drag",
    "left_mouse_down",
    "left_mouse_up",
    "middle_click",
    "mouse_move",
    "right_click",
    "screenshot",
    "scroll",
    "triple_click",
    "type",
    "wait",
    "zoom",
];
/// Most entries of `tools` and `confirm`: more than there are names.
const MAX_NAMES: usize = 100;

/// Tools that a model may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedTools {
    /// Screen, mouse and keyboard.
    pub computer: bool,
    /// Commands.
    pub bash: bool,
    /// Requests for the help of a person.
    pub help: bool,
}

impl AllowedTools {
    /// Reads the names of tools. A model that may wait for help has a tool for it, whatever the names.
    pub(super) fn read(names: Option<&[String]>, help_seconds: u32) -> Result<Self> {
        let help = help_seconds > 0;
        let Some(names) = names else { return Ok(Self { computer: true, bash: true, help }) };
        let known = |name: &String| TOOLS.contains(&name.as_str());
        if names.len() > MAX_NAMES || !names.iter().all(known) {
            return Err(Error::invalid(format!(
                "tools must be names of tools that the model may use: {}. Functions of the client are not called",
                TOOLS.join(", ")
            )));
        }
        let has = |name: &str| names.iter().any(|allowed| allowed == name);
        Ok(Self { computer: has(COMPUTER), bash: has(BASH), help })
    }
}

/// Reads the names of tools and actions before which a run ends.
pub(super) fn read_confirm(names: Option<Vec<String>>) -> Result<Vec<String>> {
    let names = names.unwrap_or_default();
    let known = |name: &String| TOOLS.contains(&name.as_str()) || COMPUTER_ACTIONS.contains(&name.as_str());
    if names.len() > MAX_NAMES || !names.iter().all(known) {
        // A misspelled name would confirm nothing.
        return Err(Error::invalid(format!(
            "confirm must be names of tools ({}) or of actions of the tool {COMPUTER} ({})",
            TOOLS.join(", "),
            COMPUTER_ACTIONS.join(", ")
        )));
    }
    Ok(names)
}
