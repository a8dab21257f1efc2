//! What may a list be asked for, and within which bounds?

use std::time::Duration;

use super::choose::Wish;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::element::ElementsQuery;

/// Elements of a list when no number is given.
const DEFAULT_NODES: u32 = 500;
/// Most elements of a list.
pub(super) const MAX_NODES: u32 = 5000;
/// Levels when no number is given; pages nest deeper than programs, rarely beyond this.
const DEFAULT_DEPTH: u32 = 50;
/// Most levels.
const MAX_DEPTH: u32 = 100;
/// Time when none is given.
const DEFAULT_TIMEOUT_MS: u32 = 2000;
/// Shortest time that makes sense.
const MIN_TIMEOUT_MS: u32 = 50;
/// Longest time.
const MAX_TIMEOUT_MS: u32 = 10_000;

/// What a list is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) screen: Option<String>,
    pub(super) depth: usize,
    pub(super) timeout: Duration,
    pub(super) window: Option<String>,
    pub(super) wish: Wish,
}

impl Request {
    /// Reads the wire's words.
    ///
    /// # Errors
    /// `Invalid` for a number out of its bounds or an unknown word.
    pub fn parse(query: ElementsQuery) -> Result<Self> {
        let within = |name: &str, value: Option<u32>, least: u32, usual: u32, most: u32| {
            let value = value.unwrap_or(usual);
            if (least..=most).contains(&value) {
                Ok(value)
            } else {
                Err(Error::invalid(format!("{name} must be {least} to {most}")))
            }
        };
        let hidden = match query.include.as_deref() {
            None | Some("visible") => false,
            Some("all") => true,
            Some(_) => return Err(Error::invalid("include must be visible or all")),
        };
        let lower = |text: Option<String>| text.filter(|it| !it.is_empty()).map(|it| it.to_lowercase());
        let timeout =
            within("timeout_ms", query.timeout_ms, MIN_TIMEOUT_MS, DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS)?;
        Ok(Self {
            screen: query.screen,
            depth: within("max_depth", query.max_depth, 0, DEFAULT_DEPTH, MAX_DEPTH)? as usize,
            timeout: Duration::from_millis(timeout.into()),
            window: lower(query.window),
            wish: Wish {
                most: within("max_nodes", query.max_nodes, 1, DEFAULT_NODES, MAX_NODES)? as usize,
                role: lower(query.role),
                name: lower(query.name),
                hidden,
                inputs: false,
            },
        })
    }

    /// Only what takes input, unless a role is asked for.
    #[must_use]
    pub fn inputs_only(mut self) -> Self {
        self.wish.inputs = self.wish.role.is_none();
        self
    }

    /// The screen that was asked for.
    pub fn screen(&self) -> Option<&str> {
        self.screen.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_bounds_and_unknown_words_are_refused() {
        let good = Request::parse(ElementsQuery::default()).unwrap();
        assert_eq!((good.wish.most, good.depth, good.timeout), (500, 50, Duration::from_secs(2)));
        let query = ElementsQuery::default;
        for bad in [
            ElementsQuery { max_nodes: Some(0), ..query() },
            ElementsQuery { max_nodes: Some(5001), ..query() },
            ElementsQuery { max_depth: Some(101), ..query() },
            ElementsQuery { timeout_ms: Some(49), ..query() },
            ElementsQuery { timeout_ms: Some(10_001), ..query() },
            ElementsQuery { include: Some("hidden".into()), ..query() },
        ] {
            assert!(Request::parse(bad.clone()).is_err(), "{bad:?}");
        }
        let inputs = |role: Option<&str>| {
            let query = ElementsQuery { role: role.map(str::to_owned), ..query() };
            Request::parse(query).unwrap().inputs_only().wish.inputs
        };
        assert!(inputs(None) && !inputs(Some("label")) && inputs(Some("")));
    }
}
