//! Calls of a computer's own actions: a path with the fields of the action as its query, as triggers write them.

use hotdesk_domain::computer::template::trigger::render;
use hotdesk_domain::network::webhook::in_url;

use super::exec::Bash;
use crate::desktop::action::{
    Action, Click, Drag, KeyPress, Move, PointerButton, Scroll, Type, Wait, WaitChange, WaitStable,
};
use crate::desktop::screenshot::ScreenshotQuery;

/// Path of a shell command.
const BASH: &str = "bash";
/// Longest query in bytes, after its references are replaced: some times the longest text of an event.
const MAX_QUERY: usize = 64 * 1024;
/// Value of every reference while a definition is checked: it is a number and a text.
const SAMPLE: &str = "1";

/// What a trigger calls.
#[derive(Clone, Debug)]
pub enum ComputerCall {
    /// An action on the boot screen.
    Action(Box<Action>),
    /// A shell command.
    Bash(Bash),
}

macro_rules! parse_action {
    ($($(#[$doc:meta])* $variant:ident($body:ident) = $name:tt $({ $($route:tt)* })?,)*) => {
        /// The action of a name; `None` when there is none.
        fn parse_action(name: &str, query: &str) -> Option<Result<Action, serde_urlencoded::de::Error>> {
            match name {
                $($name => Some(serde_urlencoded::from_str::<$body>(query).map(Action::$variant)),)*
                _ => None,
            }
        }
    };
}

crate::for_each_action!(parse_action);

impl ComputerCall {
    /// Reads a path such as `/key?key=F5`. References to the event in its query are replaced by what `event` returns for them.
    ///
    /// # Errors
    /// Why it is no call.
    pub fn parse(endpoint: &str, mut event: impl FnMut(&str) -> String) -> Result<Self, String> {
        let (path, query) = endpoint.split_once('?').unwrap_or((endpoint, ""));
        let mut has_reference = false;
        let query = render(query, MAX_QUERY, |field| {
            has_reference = true;
            in_url(&event(field))
        });
        let query = query.ok_or_else(|| format!("the query of {path} has more than {MAX_QUERY} bytes"))?;
        let wrong = |error: serde_urlencoded::de::Error| format!("the query of {path} is wrong: {error}");
        let name = path.strip_prefix('/').unwrap_or(path);
        if name == BASH {
            if has_reference {
                return Err("a reference to the event in a shell command; the action command has one safely"
                    .to_owned());
            }
            return serde_urlencoded::from_str(&query).map(Self::Bash).map_err(wrong);
        }
        match parse_action(name, &query) {
            Some(action) => action.map(|action| Self::Action(Box::new(action))).map_err(wrong),
            None => Err(format!("{path} is not an action of the computer")),
        }
    }

    /// Checks a path of a definition.
    ///
    /// # Errors
    /// Why it is no call, whatever the event.
    pub fn check(endpoint: &str) -> Result<(), String> {
        Self::parse(endpoint, |_| SAMPLE.to_owned()).map(drop)
    }
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
            Err(why) => json!(why),
        };
        assert_eq!(parse("/screenshot"), json!({"action": "screenshot"}));
        assert_eq!(parse("/click?x=1&y=2.5"), json!({"action": "click", "x": 1.0, "y": 2.5}));
        assert_eq!(parse("/key?key=ctrl%2BF5"), json!({"action": "key", "key": "ctrl+F5"}));
        // A value of the event stays one value.
        assert_eq!(parse("/type?text={{event.path}}")["text"], "<path>&x=1");
        assert_eq!(parse("/bash?command=date"), json!({"command": "date"}));
        for (wrong, part) in [
            ("/delete", "is not an action"),
            ("/{{event.x}}", "is not an action"),
            ("/click?x=1", "missing field `y`"),
            ("/key?key=a&what=b", "unknown field"),
            ("/bash?command={{event.path}}", "reference to the event in a shell command"),
        ] {
            assert!(parse(wrong).as_str().is_some_and(|why| why.contains(part)), "{wrong}: {}", parse(wrong));
        }
        assert_eq!(ComputerCall::check("/click?x={{event.x}}&y={{event.y}}"), Ok(()));
    }
}
