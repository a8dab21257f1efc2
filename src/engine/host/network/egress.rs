//! Packet rules of egress policies: one chain for what a guest sends and one for what it receives, and sets with the addresses
//! of its rules.
//!
//! ```text
//!   guest -- forward: from_guest -- vmap @egress --> egress<slot>:  connection with the policy's mark? address in a set?
//!   guest <- forward -------------- vmap @ingress -> ingress<slot>: the same of the sender
//! ```
//! The first packet of a permitted connection gives it a mark (conntrack), by which the rest passes. So a connection outlives
//! the addresses that its name had. Each policy has another mark: after a change every connection is judged again.

use std::net::Ipv4Addr;

use serde::Deserialize;

use crate::host::command::{TIMEOUT, check_status, run_with_timeout, tool};
use crate::host::network::{delete_element, veth};
use crate::{EngineError, EngineResult};
use hotdesk_domain::computer::template::network::egress::{EgressMode, EgressPolicy};

/// Most addresses that names of one guest have at a time: above what a browser with many open pages uses. A list of all, with
/// the longest comments, fits in the output that is read of a tool (256 KiB).
pub(super) const MAX_ADDRESSES: usize = 1024;

/// Longest comment of an element in bytes (`NFTNL_UDATA_COMMENT_MAXLEN` of libnftnl, with its end).
pub(super) const MAX_COMMENT: usize = 127;

/// The names of what a slot has in the table.
pub(super) struct EgressNames {
    pub(super) fixed: String,
    pub(super) names: String,
    egress: String,
    ingress: String,
    veth: String,
}

impl EgressNames {
    pub(super) fn of(slot: u16) -> Self {
        let named = |what: &str| format!("{what}{slot:04x}");
        Self {
            fixed: named("fixed"),
            names: named("names"),
            egress: named("egress"),
            ingress: named("ingress"),
            veth: veth(slot),
        }
    }

    /// Adds the sets and chains; existing ones stay.
    fn declare(&self) -> String {
        let Self { fixed, names, egress, ingress, .. } = self;
        // Rules that an earlier version loaded lack the first three.
        format!(
            "add set inet hotdesk filtered {{ type ifname; }}\n\
             add map inet hotdesk egress {{ type ifname : verdict; }}\n\
             add map inet hotdesk ingress {{ type ifname : verdict; }}\n\
             add set inet hotdesk {fixed} {{ type ipv4_addr; flags interval; auto-merge; }}\n\
             add set inet hotdesk {names} {{ type ipv4_addr; size {MAX_ADDRESSES}; flags timeout; }}\n\
             add chain inet hotdesk {egress}\n\
             add chain inet hotdesk {ingress}\n"
        )
    }

    /// The elements that lead a guest's packets to its chains, each with its value.
    fn elements(&self) -> [String; 3] {
        let Self { egress, ingress, veth, .. } = self;
        [
            format!("filtered {{ \"{veth}\" }}"),
            format!("egress {{ \"{veth}\" : jump {egress} }}"),
            format!("ingress {{ \"{veth}\" : jump {ingress} }}"),
        ]
    }
}

/// An element of a guest's set of addresses of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownAddress {
    pub(super) address: Ipv4Addr,
    /// The name that had it.
    pub(super) name: String,
    /// Seconds until it is removed.
    pub(super) seconds: u64,
}

impl KnownAddress {
    /// A script that adds it, or gives it this timeout.
    pub(super) fn script(&self, set: &str) -> String {
        let Self { address, name, seconds } = self;
        let comment = if name.len() <= MAX_COMMENT { format!(" comment \"{name}\"") } else { String::new() };
        let timed = format!("{address} timeout {seconds}s");
        // An addition alone would leave the timeout of an existing element.
        format!(
            "add element inet hotdesk {set} {{ {timed} }}\n\
             delete element inet hotdesk {set} {{ {address} }}\n\
             add element inet hotdesk {set} {{ {timed}{comment} }}\n"
        )
    }
}

/// A script that gives a slot a policy, with addresses that names had under an earlier one.
pub(super) fn install(slot: u16, policy: &EgressPolicy, known: &[KnownAddress]) -> String {
    let own = EgressNames::of(slot);
    let EgressNames { fixed, names, egress, ingress, .. } = &own;
    // Never 0, the mark of connections that were not judged.
    let mark = rand::random::<u32>() | 1;
    let mut script = own.declare();
    for chain in [egress, ingress] {
        script += &format!("flush chain inet hotdesk {chain}\n");
    }
    for set in [fixed, names] {
        script += &format!("flush set inet hotdesk {set}\n");
    }
    let networks: Vec<String> = policy.networks().map(|network| network.to_string()).collect();
    if !networks.is_empty() {
        script += &format!("add element inet hotdesk {fixed} {{ {} }}\n", networks.join(", "));
    }
    script.extend(known.iter().map(|address| address.script(names)));
    let marked = format!("ct state {{ established, related }} ct mark {mark} return");
    let permit = format!("ct mark set {mark} return");
    let rules = match policy.mode {
        EgressMode::Allow => [
            (
                egress,
                vec![
                    marked.clone(),
                    format!("ip daddr @{fixed} {permit}"),
                    format!("ip daddr @{names} {permit}"),
                    "goto refused".to_owned(),
                ],
            ),
            (
                ingress,
                vec![
                    marked,
                    format!("ct state established ip saddr @{fixed} {permit}"),
                    format!("ct state established ip saddr @{names} {permit}"),
                    "drop".to_owned(),
                ],
            ),
        ],
        EgressMode::Block => [
            (
                egress,
                vec![
                    marked.clone(),
                    format!("ip daddr @{fixed} goto refused"),
                    format!("ip daddr @{names} goto refused"),
                    // Other name servers would answer with blocked names; 853 is DNS over TLS and QUIC (RFC 7858, RFC 9250).
                    "meta l4proto { tcp, udp } th dport { 53, 853 } goto refused".to_owned(),
                    permit.clone(),
                ],
            ),
            (
                ingress,
                vec![
                    marked,
                    format!("ip saddr @{fixed} drop"),
                    format!("ip saddr @{names} drop"),
                    // An answer of such a name server must not give its connection the mark.
                    "meta l4proto { tcp, udp } th sport { 53, 853 } drop".to_owned(),
                    format!("ct state established {permit}"),
                ],
            ),
        ],
    };
    for (chain, lines) in rules {
        for line in lines {
            script += &format!("add rule inet hotdesk {chain} {line}\n");
        }
    }
    script.extend(own.elements().map(|element| format!("add element inet hotdesk {element}\n")));
    script
}

/// A script that removes the policy of a slot, if it has one.
pub(super) fn remove(slot: u16) -> String {
    let own = EgressNames::of(slot);
    let mut script = own.declare();
    script.extend(own.elements().map(|element| delete_element(&element)));
    let EgressNames { fixed, names, egress, ingress, .. } = &own;
    for chain in [egress, ingress] {
        script += &format!("flush chain inet hotdesk {chain}\ndelete chain inet hotdesk {chain}\n");
    }
    for set in [fixed, names] {
        script += &format!("delete set inet hotdesk {set}\n");
    }
    script
}

/// The addresses in a slot's set of names that both policies name, before the second one takes effect.
pub(super) fn kept(
    slot: u16,
    before: Option<&EgressPolicy>,
    policy: &EgressPolicy,
) -> EngineResult<Vec<KnownAddress>> {
    if before.is_none_or(|before| before.mode != policy.mode) {
        return Ok(Vec::new());
    }
    Ok(known(slot)?.into_iter().filter(|address| policy.names(&address.name)).collect())
}

/// The output of `nft -j list set` (libnftables-json(5)).
#[derive(Deserialize)]
struct Listing {
    nftables: Vec<ListedObject>,
}

#[derive(Deserialize)]
struct ListedObject {
    set: Option<ListedSet>,
}

#[derive(Deserialize)]
struct ListedSet {
    #[serde(default)]
    elem: Vec<ListedElement>,
}

#[derive(Deserialize)]
struct ListedElement {
    elem: ListedAddress,
}

#[derive(Deserialize)]
struct ListedAddress {
    val: Ipv4Addr,
    #[serde(default)]
    expires: u64,
    comment: Option<String>,
}

/// The addresses of names in a slot's set, whose names are known.
fn known(slot: u16) -> EngineResult<Vec<KnownAddress>> {
    const STEP: &str = "list the addresses of names";
    let mut nft = tool("nft");
    nft.args(["-j", "list", "set", "inet", "hotdesk", &EgressNames::of(slot).names]);
    let (status, text, complaint) = run_with_timeout(STEP, &mut nft, None, TIMEOUT)?;
    if complaint.contains("No such file or directory") {
        return Ok(Vec::new());
    }
    check_status(STEP, status, &complaint)?;
    parse_known(&text).map_err(|error| EngineError::failed(STEP, error))
}

fn parse_known(text: &str) -> serde_json::Result<Vec<KnownAddress>> {
    let listing: Listing = serde_json::from_str(text)?;
    let elements = listing.nftables.into_iter().filter_map(|object| object.set).flat_map(|set| set.elem);
    let known = elements.filter_map(|ListedElement { elem: ListedAddress { val, expires, comment } }| {
        let seconds = expires.max(1);
        comment.map(|name| KnownAddress { address: val, name, seconds })
    });
    Ok(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_set_are_read_with_their_names() {
        let text = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"set": {"family": "inet", "name": "names0007",
            "table": "hotdesk", "type": "ipv4_addr", "handle": 25, "size": 4096, "flags": ["timeout"], "elem": [
            {"elem": {"val": "203.0.113.5", "timeout": 60, "expires": 19, "comment": "a.example.com"}},
            {"elem": {"val": "203.0.113.6", "timeout": 60, "expires": 0, "comment": "b.test"}},
            {"elem": {"val": "203.0.113.7", "timeout": 60, "expires": 1}}]}}]}"#;
        let known = |address: &str, name: &str, seconds| KnownAddress {
            address: address.parse().unwrap(),
            name: name.to_owned(),
            seconds,
        };
        assert_eq!(
            parse_known(text).unwrap(),
            [known("203.0.113.5", "a.example.com", 19), known("203.0.113.6", "b.test", 1)]
        );
        let empty = r#"{"nftables": [{"set": {"name": "names0007"}}]}"#;
        assert_eq!(parse_known(empty).unwrap(), []);
    }

    #[test]
    fn each_policy_has_a_mark_of_its_own() {
        let policy: EgressPolicy = "allow 192.0.2.0/24".parse().unwrap();
        assert_ne!(install(7, &policy, &[]), install(7, &policy, &[]));
        assert!(!install(7, &policy, &[]).contains("mark 0 "));
    }
}
