//! Templates of accounts: published definitions, builds, and the layers that builds made.

pub mod builds;
pub mod definitions;
pub mod layers;
pub mod saved;
pub mod stars;

use crate::id;
use hotdesk_base::ids::LayerId;
use hotdesk_domain::desktop::terminal::ComputerTerminal;
use hotdesk_domain::error::{Error, Result};

/// The column text of a list of layers.
pub(crate) fn layers_text(layers: &[LayerId]) -> String {
    let ids: Vec<String> = layers.iter().map(LayerId::to_string).collect();
    ids.join(" ")
}

/// The column text of a list of terminals.
pub(crate) fn terminals_text(terminals: &[ComputerTerminal]) -> Result<String> {
    let pairs: Vec<_> = terminals.iter().map(|terminal| (&terminal.name, &terminal.title)).collect();
    serde_json::to_string(&pairs).map_err(Error::internal)
}

/// Parses [`terminals_text`].
pub(crate) fn parse_terminals(text: &str) -> Result<Vec<ComputerTerminal>> {
    let pairs: Vec<(String, Option<String>)> = serde_json::from_str(text).map_err(Error::internal)?;
    Ok(pairs.into_iter().map(|(name, title)| ComputerTerminal { name, title }).collect())
}

/// Parses [`layers_text`].
pub(crate) fn parse_layers(text: &str) -> Result<Vec<LayerId>> {
    text.split_whitespace().map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_have_any_title() {
        let terminal = |name: &str, title: Option<&str>| ComputerTerminal {
            name: name.to_owned(),
            title: title.map(ToOwned::to_owned),
        };
        let all = vec![terminal("main", Some("a \"b\"\n[c], d")), terminal("other", None)];
        assert_eq!(parse_terminals(&terminals_text(&all).unwrap()).unwrap(), all);
        assert_eq!(parse_terminals("[]").unwrap(), []);
        assert!(parse_terminals("main").is_err());
    }
}
