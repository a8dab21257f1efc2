//! Answers of the name proxy: which questions it answers, and which records of a name server it passes on.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::A;
use hickory_resolver::proto::rr::{DNSClass, Name, RData, Record, RecordType};
use hickory_resolver::{Resolver, TokioResolver};

use crate::EngineError;
use crate::host::network::egress::MAX_ADDRESSES;
use crate::host::network::name_proxy::address_set::AddressSet;
use hotdesk_domain::computer::template::network::egress::{EgressMode, EgressPolicy};
use hotdesk_domain::network::address::is_public;

/// Longest TTL that a guest gets. Addresses leave the guest's set some time after it, so this bounds how many stay in it.
const MAX_TTL: u32 = 600;
/// Most addresses of one answer that are passed on; more fit in no answer by UDP.
const MAX_ANSWER: usize = 64;
/// Places of a guest's set that a policy that blocks keeps for the names that it names one by one. Whoever owns a name below a
/// blocked one can give it any number of addresses, and the guest asks for it.
const RESERVED: usize = MAX_ADDRESSES / 2;
/// Responses in the cache; each takes a kilobyte or less.
const CACHE: u64 = 512;
/// Per attempt. Programs give up after 5 s (resolv.conf(5)) and ask again.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
const ATTEMPTS: usize = 2;
/// Largest answer by UDP (DNS flag day 2020); longer ones are truncated, and the guest asks again by TCP.
const MAX_UDP: u16 = 1232;
/// The smallest that every program accepts (RFC 1035 section 2.3.4).
const MIN_UDP: u16 = 512;
/// Pause between two looks at the names that a policy blocks one by one.
const REFRESH: Duration = Duration::from_secs(30);

/// Types with an empty answer: guests have no IPv6, and the other two may have addresses that are in no set (RFC 9460).
const UNANSWERED: [RecordType; 3] = [RecordType::AAAA, RecordType::HTTPS, RecordType::SVCB];
/// Types that ask for more than one kind of record.
const WHOLE_ZONES: [RecordType; 3] = [RecordType::ANY, RecordType::AXFR, RecordType::IXFR];

/// How the guest asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// Name resolution under one policy.
pub(super) struct Resolution {
    policy: EgressPolicy,
    resolver: TokioResolver,
    addresses: AddressSet,
}

impl Resolution {
    /// Resolution by these name servers.
    pub(super) fn new(
        policy: EgressPolicy,
        servers: &[Ipv4Addr],
        addresses: AddressSet,
    ) -> Result<Self, NetError> {
        let servers =
            servers.iter().map(|server| NameServerConfig::udp_and_tcp(IpAddr::V4(*server))).collect();
        let config = ResolverConfig::from_name_servers(servers);
        let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
        let options = builder.options_mut();
        options.cache_size = CACHE;
        options.timeout = ATTEMPT_TIMEOUT;
        options.attempts = ATTEMPTS;
        options.use_hosts_file = ResolveHosts::Never;
        options.preserve_intermediates = true;
        options.try_tcp_on_error = true;
        Ok(Self { policy, resolver: builder.build()?, addresses })
    }

    /// Answers a message of the guest; `None` for what is no question.
    pub(super) async fn answer(&self, message: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let question = Message::from_vec(message).ok()?;
        if question.metadata.message_type != MessageType::Query {
            return None;
        }
        let answer = self.resolve(&question).await;
        let most = match transport {
            Transport::Tcp => usize::from(u16::MAX),
            Transport::Udp => question.max_payload().clamp(MIN_UDP, MAX_UDP).into(),
        };
        let bytes = answer.to_vec().ok()?;
        if bytes.len() <= most { Some(bytes) } else { answer.truncate().to_vec().ok() }
    }

    async fn resolve(&self, question: &Message) -> Message {
        let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
        answer.metadata.recursion_desired = question.metadata.recursion_desired;
        answer.metadata.recursion_available = true;
        answer.add_queries(question.queries.iter().cloned());
        if question.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(MAX_UDP);
            answer.set_edns(edns);
        }
        let (code, records) = match question.queries.as_slice() {
            _ if question.metadata.op_code != OpCode::Query => (ResponseCode::NotImp, Vec::new()),
            [query] if query.query_class == DNSClass::IN => self.resolve_query(query).await,
            [] => (ResponseCode::FormErr, Vec::new()),
            [..] => (ResponseCode::NotImp, Vec::new()),
        };
        answer.metadata.response_code = code;
        answer.answers = records;
        answer
    }

    async fn resolve_query(&self, query: &Query) -> (ResponseCode, Vec<Record>) {
        let Some(name) = host_name(&query.name) else { return (ResponseCode::Refused, Vec::new()) };
        if !self.policy.answers(&name) {
            if self.policy.mode == EgressMode::Block {
                self.block(&name).await;
            }
            return (ResponseCode::Refused, Vec::new());
        }
        let kind = query.query_type;
        if UNANSWERED.contains(&kind) {
            (ResponseCode::NoError, Vec::new())
        } else if WHOLE_ZONES.contains(&kind) {
            (ResponseCode::NotImp, Vec::new())
        } else {
            self.look_up(&name, &query.name, kind).await
        }
    }

    async fn look_up(&self, text: &str, name: &Name, kind: RecordType) -> (ResponseCode, Vec<Record>) {
        let mut full = name.clone();
        full.set_fqdn(true);
        let found = match self.resolver.lookup(full, kind).await {
            Ok(found) => found,
            Err(error) => return (code_of(&error), Vec::new()),
        };
        let mut records = found.answers().to_vec();
        drop_refused(&self.policy, &mut records);
        let ttl = records.iter().map(|record| record.ttl).min().unwrap_or(0).min(MAX_TTL);
        for record in &mut records {
            record.ttl = ttl;
        }
        if self.policy.mode == EgressMode::Allow {
            let permitted = addresses(&records);
            let most = places(&self.policy, text);
            let added = self.addresses.add(text, &permitted, Duration::from_secs(ttl.into()), most).await;
            if added.is_err() {
                return (ResponseCode::ServFail, Vec::new());
            }
        }
        (ResponseCode::NoError, records)
    }

    /// Blocks the addresses of a name that the policy blocks.
    async fn block(&self, name: &str) {
        let Ok(mut full) = Name::from_ascii(name) else { return };
        full.set_fqdn(true);
        // A name without addresses needs no rule.
        let Ok(found) = self.resolver.lookup(full, RecordType::A).await else { return };
        let blocked = addresses(found.answers());
        let ttl = found.answers().iter().map(|record| record.ttl).min().unwrap_or(0).min(MAX_TTL);
        let life = Duration::from_secs(ttl.into()).max(REFRESH * 2);
        if let Err(error) = self.addresses.add(name, &blocked, life, places(&self.policy, name)).await {
            report(&error);
        }
    }

    /// Keeps the addresses of names that the policy blocks one by one in the guest's set.
    pub(super) async fn keep_blocked(&self) {
        if self.policy.mode == EgressMode::Allow {
            return;
        }
        loop {
            for name in self.policy.domains() {
                self.block(name).await;
            }
            tokio::time::sleep(REFRESH).await;
        }
    }
}

/// The proxy has no log: what it cannot do, the guest sees as a name that does not resolve.
fn report(error: &EngineError) {
    tracing::warn!(error = format_args!("{error:#}"), "could not block the addresses of a name");
}

/// Most addresses that are in the guest's set once those of a name are added.
pub(super) fn places(policy: &EgressPolicy, name: &str) -> usize {
    let is_named = || policy.domains().any(|domain| domain == name);
    match policy.mode {
        EgressMode::Block if !is_named() => MAX_ADDRESSES - RESERVED,
        EgressMode::Allow | EgressMode::Block => MAX_ADDRESSES,
    }
}

/// Whether a name may lead to an address. The owner of a name could make it lead into the operator's network (DNS rebinding, T3
/// in docs/security.md). A network of the policy permits its addresses anyway, and with `block` the packet rules of all guests
/// refuse special ones.
fn may_lead_to(policy: &EgressPolicy, address: Ipv4Addr) -> bool {
    match policy.mode {
        EgressMode::Allow => is_public(address.into()) || policy.has_address(address),
        EgressMode::Block => true,
    }
}

/// Drops the addresses that names must not lead to, and those beyond [`MAX_ANSWER`].
fn drop_refused(policy: &EgressPolicy, records: &mut Vec<Record>) {
    let mut count = 0;
    records.retain(|record| {
        let RData::A(A(address)) = &record.data else { return true };
        let passes = may_lead_to(policy, *address);
        count += usize::from(passes);
        passes && count <= MAX_ANSWER
    });
}

/// The IPv4 addresses in records.
fn addresses(records: &[Record]) -> Vec<Ipv4Addr> {
    let found = records
        .iter()
        .filter_map(|record| if let RData::A(A(address)) = &record.data { Some(*address) } else { None });
    found.take(MAX_ANSWER.min(MAX_ADDRESSES)).collect()
}

/// What a failed lookup tells the guest.
fn code_of(error: &NetError) -> ResponseCode {
    if let NetError::Dns(DnsError::NoRecordsFound(nothing)) = error {
        nothing.response_code
    } else {
        ResponseCode::ServFail
    }
}

/// A name of letters, digits, `-` and `_`, in lower case and without a dot at the end. Others are no names of hosts, and could
/// not be written into packet rules.
fn host_name(name: &Name) -> Option<String> {
    let mut text = String::new();
    for label in name.iter() {
        let is_plain = label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if label.is_empty() || !is_plain {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_public_addresses_and_to_networks_of_the_policy() {
        for (policy, address, passes) in [
            ("allow a.test", "203.0.113.7", true),
            ("allow a.test", "10.0.0.1", false),
            ("allow a.test", "127.0.0.1", false),
            ("allow a.test", "169.254.169.254", false),
            ("allow a.test", "100.64.0.1", false),
            ("allow a.test", "224.0.0.1", false),
            ("allow a.test", "0.0.0.0", false),
            ("allow a.test 10.0.0.0/24", "10.0.0.1", true),
            ("allow a.test 10.0.0.0/24", "10.0.1.1", false),
            ("block a.test", "10.0.0.1", true),
        ] {
            let policy: EgressPolicy = policy.parse().unwrap();
            assert_eq!(may_lead_to(&policy, address.parse().unwrap()), passes, "{policy}: {address}");
        }
    }

    #[test]
    fn an_answer_has_a_bounded_number_of_addresses_and_keeps_its_other_records() {
        let name = Name::from_ascii("a.test.").unwrap();
        let record = |data| Record::from_rdata(name.clone(), 60, data);
        let alias = RData::CNAME(hickory_resolver::proto::rr::rdata::CNAME(name.clone()));
        let mut records = vec![record(alias)];
        records.extend((0..100).map(|last| record(RData::A(A(Ipv4Addr::new(203, 0, 113, last))))));
        records.extend((0..100).map(|last| record(RData::A(A(Ipv4Addr::new(10, 0, 0, last))))));
        drop_refused(&"allow a.test".parse().unwrap(), &mut records);
        assert_eq!(records.len(), 1 + MAX_ANSWER);
        assert_eq!(addresses(&records).len(), MAX_ANSWER);
        assert!(addresses(&records).iter().all(|address| is_public((*address).into())));
    }

    #[test]
    fn names_of_hosts_are_plain_and_others_are_none() {
        let name = |labels: &[&[u8]]| host_name(&Name::from_labels(labels.iter().copied()).unwrap());
        assert_eq!(name(&[b"WWW", b"Example-1", b"te_st"]).as_deref(), Some("www.example-1.te_st"));
        assert_eq!(host_name(&Name::root()), None);
        for wrong in [&b"a b"[..], b"a\"", b"a.b", b"*", b"\xc3\xa4", b"a\n", b"a;drop"] {
            assert_eq!(name(&[wrong, b"test"]), None, "{wrong:?}");
        }
    }
}
