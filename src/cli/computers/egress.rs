//! `hotdesk computers egress`, and the egress policy of a new computer.

use clap::Args;
use reqwest::Method;

use crate::client::api::REQUEST_TIMEOUT;
use crate::client::{Session, resolve};
use crate::failure::Outcome;
use crate::output;
use hotdesk_wire::computer::egress::{EgressPolicyRecord, EgressSetting};

/// The rules of an egress policy.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct EgressRules {
    /// Reach only these destinations: domains, `*.` and a domain, addresses, networks.
    #[arg(long, value_name = "DESTINATION,…", value_delimiter = ',')]
    allow: Option<Vec<String>>,
    /// Reach all destinations but these.
    #[arg(long, value_name = "DESTINATION,…", value_delimiter = ',')]
    block: Option<Vec<String>>,
}

impl EgressRules {
    /// The policy, if any.
    pub fn policy(self) -> Option<EgressPolicyRecord> {
        let record = |mode: &str, rules: Vec<String>| {
            let rules = rules.into_iter().filter(|rule| !rule.is_empty()).collect();
            EgressPolicyRecord { mode: mode.to_owned(), rules }
        };
        let allow = self.allow.map(|rules| record("allow", rules));
        allow.or_else(|| self.block.map(|rules| record("block", rules)))
    }
}

/// `hotdesk computers egress`. Without rules and `--off` it shows the policy.
#[derive(Debug, Args)]
pub struct EgressOptions {
    /// Computer: name, id, the beginning of its id, or instance id.
    computer: String,
    #[command(flatten)]
    rules: EgressRules,
    /// Remove the policy.
    #[arg(long, conflicts_with_all = ["allow", "block"])]
    off: bool,
}

/// `hotdesk computers egress`.
///
/// # Errors
/// When the server refuses the request or is unreachable.
pub async fn run(session: &Session, options: EgressOptions) -> Outcome<()> {
    let id = resolve::computer(&session.api, &options.computer).await?;
    let path = ["computers", id.as_str(), "egress-policy"];
    let policy = options.rules.policy();
    let response = if policy.is_some() || options.off {
        let wanted = EgressSetting { egress_policy: policy };
        session.api.call(Method::PUT, &path, Some(&wanted), REQUEST_TIMEOUT).await?
    } else {
        session.api.get(&path, &[], REQUEST_TIMEOUT).await?
    };
    let setting: EgressSetting = response.decode()?;
    session.show(&response, || output::line(&describe(&options.computer, setting.egress_policy)))
}

fn describe(computer: &str, policy: Option<EgressPolicyRecord>) -> String {
    let Some(EgressPolicyRecord { mode, rules }) = policy else {
        return format!("{computer} has no egress policy.");
    };
    match (mode.as_str(), rules.is_empty()) {
        ("allow", true) => format!("{computer} reaches nothing."),
        ("allow", false) => format!("{computer} reaches only {}.", rules.join(", ")),
        (_, true) => format!("{computer} reaches all public destinations."),
        (_, false) => format!("{computer} reaches all public destinations but {}.", rules.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_described_in_a_sentence() {
        let policy = |mode: &str, rules: &[&str]| {
            let rules = rules.iter().map(ToString::to_string).collect();
            Some(EgressPolicyRecord { mode: mode.to_owned(), rules })
        };
        for (policy, text) in [
            (None, "c1 has no egress policy."),
            (policy("allow", &[]), "c1 reaches nothing."),
            (policy("allow", &["a.test", "10.0.0.0/8"]), "c1 reaches only a.test, 10.0.0.0/8."),
            (policy("block", &[]), "c1 reaches all public destinations."),
            (policy("block", &["a.test"]), "c1 reaches all public destinations but a.test."),
        ] {
            assert_eq!(describe("c1", policy), text);
        }
    }
}
