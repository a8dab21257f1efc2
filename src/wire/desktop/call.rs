//! Calls of a computer's own actions: a path with the fields of the action as its query, as triggers write them.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use hotdesk_base::step_error::StepError;
use hotdesk_domain::computer::template::trigger::render;
use hotdesk_domain::network::webhook::in_url;

use super::action::Action;
use super::bash::Bash;

/// Path of a shell command.
const BASH: &str = "bash";
/// Longest query in bytes, after its references are replaced: some times the longest text of an event.
const MAX_QUERY: usize = 64 * 1024;
/// Value of every reference while a definition is checked: it is a number and a text.
const SAMPLE: &str = "1";
/// Field with the name of an action.
const ACTION: &str = "action";
/// Fields of actions and commands that are numbers, and that are truth values. A query has only texts.
const NUMBERS: [&str; 20] = [
    "amount",
    "count",
    "duration",
    "end_x",
    "end_y",
    "hold_ms",
    "ignore_pixels",
    "max_bytes",
    "max_pixels",
    "quality",
    "quiet_ms",
    "repeat",
    "scale",
    "seconds",
    "start_x",
    "start_y",
    "timeout",
    "timeout_ms",
    "x",
    "y",
];
const TRUTH_VALUES: [&str; 4] = ["confidential", "double", "refuse_stale", "stop_on_focus_change"];

/// Call of a trigger.
#[derive(Clone, Debug)]
pub enum ComputerCall {
    /// An action on the boot screen.
    Action(Box<Action>),
    /// A shell command.
    Bash(Bash),
}

impl ComputerCall {
    /// Reads a path such as `/key?key=F5`. References to the event in its query are replaced by what `event` returns for them.
    ///
    /// # Errors
    /// The reason why it is no call.
    pub fn parse(endpoint: &str, mut event: impl FnMut(&str) -> String) -> Result<Self, StepError> {
        let (path, query) = endpoint.split_once('?').unwrap_or((endpoint, ""));
        let mut has_reference = false;
        let query = render(query, MAX_QUERY, |field| {
            has_reference = true;
            in_url(&event(field))
        });
        let query = query
            .ok_or_else(|| StepError::new(format!("the query of {path} has more than {MAX_QUERY} bytes")))?;
        let wrong = |why: StepError| StepError::new(format!("the query of {path} is wrong: {why}"));
        let name = path.strip_prefix('/').unwrap_or(path);
        if name == BASH {
            if has_reference {
                return Err(StepError::new(
                    "a reference to the event in a shell command; the action command has one safely",
                ));
            }
            let bash = fields(Map::new(), &query).and_then(|fields| read(fields).map(Self::Bash));
            return bash.map_err(wrong);
        }
        if !Action::NAMES.contains(&name) {
            return Err(StepError::new(format!("{path} is not an action of the computer")));
        }
        let named = Map::from_iter([(ACTION.to_owned(), Value::from(name))]);
        let action = fields(named, &query).and_then(|fields| read(fields).map(Self::Action));
        action.map_err(wrong)
    }

    /// Checks a path of a definition.
    ///
    /// # Errors
    /// The reason why it is no call, whatever the event.
    pub fn check(endpoint: &str) -> Result<(), StepError> {
        let mut call = Self::parse(endpoint, |_| SAMPLE.to_owned())?;
        if let Self::Action(action) = &mut call {
            let positions = action.body_mut().positions();
            if positions.iter().flatten().flatten().any(|at| **at < 0.0) {
                return Err(StepError::new(format!("{endpoint} has a position that is on no screen")));
            }
        }
        Ok(())
    }
}

/// Adds the fields of a query, with the types that they have in JSON. What is no number stays a text, which the action refuses.
fn fields(mut all: Map<String, Value>, query: &str) -> Result<Map<String, Value>, StepError> {
    let pairs: Vec<(String, String)> =
        serde_urlencoded::from_str(query).map_err(|error| StepError::new(error.to_string()))?;
    for (name, text) in pairs {
        let typed = if NUMBERS.contains(&&*name) {
            text.parse::<u32>()
                .map(Number::from)
                .ok()
                .or_else(|| Number::from_f64(text.parse().ok()?))
                .map(Value::from)
        } else if TRUTH_VALUES.contains(&&*name) {
            text.parse::<bool>().ok().map(Value::from)
        } else {
            None
        };
        if all.contains_key(&name) {
            return Err(StepError::new(format!("the field {name} is there twice")));
        }
        all.insert(name, typed.unwrap_or(Value::String(text)));
    }
    Ok(all)
}

fn read<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, StepError> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| StepError::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_and_its_query_are_an_action() {
        let parse = |endpoint: &str| match ComputerCall::parse(endpoint, |field| format!("<{field}>&x=1")) {
            Ok(ComputerCall::Action(action)) => serde_json::to_value(action).unwrap(),
            Ok(ComputerCall::Bash(bash)) => serde_json::to_value(bash).unwrap(),
            Err(why) => json!(why.to_string()),
        };
        assert_eq!(parse("/screenshot"), json!({"action": "screenshot"}));
        assert_eq!(parse("/click?x=1&y=2.5"), json!({"action": "click", "x": 1.0, "y": 2.5}));
        assert_eq!(
            parse("/click?x=1&y=2&count=2&double=true&frame=7&refuse_stale=true"),
            json!({"action": "click", "x": 1.0, "y": 2.0, "count": 2, "double": true, "frame": "7", "refuse_stale": true})
        );
        assert_eq!(
            parse("/wait_stable?quiet_ms=500&ignore_pixels=0"),
            json!({"action": "wait_stable", "quiet_ms": 500, "ignore_pixels": 0})
        );
        assert_eq!(parse("/type?text=1"), json!({"action": "type", "text": "1"}));
        assert_eq!(parse("/bash?command=date&timeout=5"), json!({"command": "date", "timeout": 5.0}));
        assert_eq!(parse("/key?key=ctrl%2BF5"), json!({"action": "key", "key": "ctrl+F5"}));
        // A value of the event stays one value.
        assert_eq!(parse("/type?text={{event.path}}")["text"], "<path>&x=1");
        assert_eq!(parse("/bash?command=date"), json!({"command": "date"}));
        for (wrong, part) in [
            ("/delete", "is not an action"),
            ("/{{event.x}}", "is not an action"),
            ("/click?x=1", "missing field `y`"),
            ("/click?x={{event.x}}&y=2", "invalid type: string"),
            ("/click?x=1&y=2&x=3", "the field x is there twice"),
            ("/click?action=key&key=a", "the field action is there twice"),
            ("/wait_stable?quiet_ms=-1", "invalid"),
            ("/key?key=a&what=b", "unknown field"),
            ("/bash?command={{event.path}}", "reference to the event in a shell command"),
        ] {
            assert!(parse(wrong).as_str().is_some_and(|why| why.contains(part)), "{wrong}: {}", parse(wrong));
        }
        assert!(ComputerCall::check("/click?x={{event.x}}&y={{event.y}}").is_ok());
        assert!(ComputerCall::check("/drag?start_x=1&start_y=1&end_x=1&end_y=-1").is_err());
    }
}
