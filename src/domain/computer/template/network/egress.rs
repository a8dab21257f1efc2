//! Egress policies: which destinations a computer reaches (docs/egress.md).

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use crate::computer::template::bounds::MAX_ENTRIES;
use crate::computer::template::network::destination;
use crate::error::{Error, Result};

/// Most rules of a policy: those of a template.
pub const MAX_RULES: usize = MAX_ENTRIES;

/// Effect of the rules of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressMode {
    /// Only the destinations of the rules can be reached.
    Allow,
    /// The destinations of the rules cannot be reached.
    Block,
}

impl EgressMode {
    /// Its word in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Block => "block",
        }
    }

    /// The mode with a word; `None` for any other word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Allow, Self::Block].into_iter().find(|mode| mode.name() == word)
    }
}

/// The destination of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EgressDestination {
    /// One domain, in lower case.
    Domain(String),
    /// All domains below this one, at any depth, but not the domain itself.
    Subdomains(String),
    /// Addresses.
    Network(IpNet),
}

impl EgressDestination {
    /// Reads a domain, which may begin with `*.`, an address or a network.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let text = destination(text)
            .map_err(|fault| Error::invalid(format!("A rule of the egress policy {}", fault.message)))?;
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network(address.into()));
        }
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self::Network(network));
        }
        Ok(match text.strip_prefix("*.") {
            Some(domain) => Self::Subdomains(domain.to_owned()),
            None => Self::Domain(text),
        })
    }

    /// Whether it names a domain, which is in lower case and without a dot at the end.
    fn names(&self, domain: &str) -> bool {
        match self {
            Self::Domain(own) => own == domain,
            Self::Subdomains(own) => {
                domain.strip_suffix(own.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            Self::Network(_) => false,
        }
    }
}

impl fmt::Display for EgressDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(domain) => f.write_str(domain),
            Self::Subdomains(domain) => write!(f, "*.{domain}"),
            Self::Network(network) if network.prefix_len() == network.max_prefix_len() => {
                write!(f, "{}", network.addr())
            }
            Self::Network(network) => write!(f, "{network}"),
        }
    }
}

/// Which destinations a computer reaches. Its text, which the store and the engines keep, is the mode and the rules with
/// spaces between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressPolicy {
    /// Effect of the rules.
    pub mode: EgressMode,
    rules: Vec<EgressDestination>,
}

impl EgressPolicy {
    /// A policy with these rules; a rule that is there twice counts once.
    ///
    /// # Errors
    /// `Invalid` for an unknown mode, a rule that is no destination, or more than [`MAX_RULES`].
    pub fn parse<'a>(mode: &str, rules: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mode = EgressMode::parse(mode).ok_or_else(|| {
            Error::invalid(format!("The mode of an egress policy is allow or block, not {mode:?}"))
        })?;
        let mut seen = BTreeSet::new();
        let mut parsed = Vec::new();
        for (at, rule) in rules.into_iter().enumerate() {
            if at >= MAX_RULES {
                return Err(Error::invalid(format!("An egress policy has at most {MAX_RULES} rules")));
            }
            let rule = EgressDestination::parse(rule)?;
            if seen.insert(rule.clone()) {
                parsed.push(rule);
            }
        }
        Ok(Self { mode, rules: parsed })
    }

    /// Its rules, in the order in which they were given.
    pub fn rules(&self) -> &[EgressDestination] {
        &self.rules
    }

    /// Whether a rule names a domain, in any case, with or without a dot at the end.
    pub fn names(&self, domain: &str) -> bool {
        let domain = domain.strip_suffix('.').unwrap_or(domain).to_ascii_lowercase();
        self.rules.iter().any(|rule| rule.names(&domain))
    }

    /// Whether name resolution answers questions about a domain.
    pub fn answers(&self, domain: &str) -> bool {
        match self.mode {
            EgressMode::Allow => self.names(domain),
            EgressMode::Block => !self.names(domain),
        }
    }

    /// The IPv4 networks of its rules. Guests have no IPv6.
    pub fn networks(&self) -> impl Iterator<Item = Ipv4Net> {
        self.rules.iter().filter_map(|rule| match rule {
            EgressDestination::Network(IpNet::V4(network)) => Some(*network),
            EgressDestination::Network(IpNet::V6(_))
            | EgressDestination::Domain(_)
            | EgressDestination::Subdomains(_) => None,
        })
    }

    /// The domains that rules name one by one.
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(|rule| match rule {
            EgressDestination::Domain(domain) => Some(domain.as_str()),
            EgressDestination::Subdomains(_) | EgressDestination::Network(_) => None,
        })
    }

    /// Whether a rule has an address.
    pub fn has_address(&self, address: Ipv4Addr) -> bool {
        self.networks().any(|network| network.contains(&address))
    }
}

impl fmt::Display for EgressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.name())?;
        self.rules.iter().try_for_each(|rule| write!(f, " {rule}"))
    }
}

impl FromStr for EgressPolicy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (mode, rules) = text.split_once(' ').unwrap_or((text, ""));
        Self::parse(mode, rules.split_whitespace())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> EgressPolicy {
        text.parse().unwrap()
    }

    #[test]
    fn rules_name_domains_exactly_or_below_a_star() {
        let rules = "example.com *.example.org 192.0.2.0/24";
        for (domain, named) in [
            ("example.com", true),
            ("EXAMPLE.com.", true),
            ("www.example.com", false),
            ("badexample.com", false),
            ("com", false),
            ("a.example.org", true),
            ("a.b.Example.ORG", true),
            ("example.org", false),
            (".example.org", false),
            ("badexample.org", false),
            ("example.org.evil.test", false),
            ("192.0.2.1", false),
            ("", false),
        ] {
            assert_eq!(policy(&format!("allow {rules}")).answers(domain), named, "allow {domain:?}");
            assert_eq!(policy(&format!("block {rules}")).answers(domain), !named, "block {domain:?}");
        }
    }

    #[test]
    fn networks_have_their_addresses_and_ipv6_is_kept_without_effect() {
        let policy = policy("allow 192.0.2.0/24 198.51.100.7 2001:db8::/32 example.com");
        assert_eq!(policy.networks().count(), 2);
        for (address, inside) in
            [("192.0.2.255", true), ("192.0.3.0", false), ("198.51.100.7", true), ("198.51.100.8", false)]
        {
            assert_eq!(policy.has_address(address.parse().unwrap()), inside, "{address}");
        }
        assert_eq!(policy.domains().collect::<Vec<_>>(), ["example.com"]);
    }

    #[test]
    fn the_text_of_a_policy_is_read_back() {
        for (text, shown) in [
            ("allow", "allow"),
            ("block", "block"),
            (
                "allow Example.COM example.com 10.1.2.3/8 10.0.0.1/32 *.A.test",
                "allow example.com 10.0.0.0/8 10.0.0.1 *.a.test",
            ),
            ("block 2001:DB8::1", "block 2001:db8::1"),
        ] {
            assert_eq!(policy(text).to_string(), shown);
            assert_eq!(policy(shown), policy(text));
        }
        for bad in ["", "deny a.test", "allow https://a.test/", "allow *", "allow a..b", "allow 10.0.0.0/33"]
        {
            assert!(bad.parse::<EgressPolicy>().is_err(), "{bad:?}");
        }
        let many = |count: usize| {
            let rules: Vec<String> = (0..count).map(|number| format!("n{number}.test")).collect();
            EgressPolicy::parse("allow", rules.iter().map(String::as_str)).is_ok()
        };
        assert!(many(MAX_RULES) && !many(MAX_RULES + 1));
    }
}
