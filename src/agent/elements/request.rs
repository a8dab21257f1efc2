//! Parameters of an element list, with their limits.

use std::time::Duration;

use crate::elements::choose::ElementFilter;
use hotdesk_domain::error::{Error, Result};
use hotdesk_wire::desktop::element::ElementsQuery;

/// Default number of elements.
const DEFAULT_NODES: u32 = 500;
/// Most elements of a list.
pub(super) const MAX_NODES: u32 = 5000;
/// Default number of levels; web pages nest deeper than programs, rarely beyond this.
const DEFAULT_DEPTH: u32 = 50;
/// Most levels.
const MAX_DEPTH: u32 = 100;
/// Default timeout in milliseconds.
const DEFAULT_TIMEOUT_MS: u32 = 2000;
/// Shortest timeout in milliseconds.
const MIN_TIMEOUT_MS: u32 = 50;
/// Longest timeout in milliseconds.
const MAX_TIMEOUT_MS: u32 = 10_000;

/// Checked parameters of a list.
#[derive(Clone, Debug)]
pub struct ListRequest {
    pub(super) screen: Option<String>,
    pub(super) depth: usize,
    pub(super) timeout: Duration,
    pub(super) window: Option<String>,
    pub(super) filter: ElementFilter,
}

impl ListRequest {
    /// Checks the query parameters.
    ///
    /// # Errors
    /// `Invalid` for a number out of range or an unknown keyword.
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
            filter: ElementFilter {
                most: within("max_nodes", query.max_nodes, 1, DEFAULT_NODES, MAX_NODES)? as usize,
                role: lower(query.role),
                name: lower(query.name),
                hidden,
                inputs: false,
            },
        })
    }

    /// Restricts the list to elements that take input, unless a role is requested.
    #[must_use]
    pub fn inputs_only(mut self) -> Self {
        self.filter.inputs = self.filter.role.is_none();
        self
    }

    /// The requested screen.
    pub fn screen(&self) -> Option<&str> {
        self.screen.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_and_unknown_keywords_are_refused() {
        let good = ListRequest::parse(ElementsQuery::default()).unwrap();
        assert_eq!((good.filter.most, good.depth, good.timeout), (500, 50, Duration::from_secs(2)));
        let query = ElementsQuery::default;
        for bad in [
            ElementsQuery { max_nodes: Some(0), ..query() },
            ElementsQuery { max_nodes: Some(5001), ..query() },
            ElementsQuery { max_depth: Some(101), ..query() },
            ElementsQuery { timeout_ms: Some(49), ..query() },
            ElementsQuery { timeout_ms: Some(10_001), ..query() },
            ElementsQuery { include: Some("hidden".into()), ..query() },
        ] {
            assert!(ListRequest::parse(bad.clone()).is_err(), "{bad:?}");
        }
        let inputs = |role: Option<&str>| {
            let query = ElementsQuery { role: role.map(str::to_owned), ..query() };
            ListRequest::parse(query).unwrap().inputs_only().filter.inputs
        };
        assert!(inputs(None) && !inputs(Some("label")) && inputs(Some("")));
    }
}
