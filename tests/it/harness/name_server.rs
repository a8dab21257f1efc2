//! Name server of a test, whose records change while it runs.

use std::collections::HashMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::network::TestNetwork;

/// Seconds for which answers may be cached.
pub const TTL: u32 = 1;
/// Pause between two looks whether the test has ended.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
enum Content {
    Address(Ipv4Addr),
    Alias(String),
}

#[derive(Debug, Default)]
struct Zone {
    names: HashMap<String, Content>,
    asked: Vec<String>,
}

/// An authoritative server for names without a zone above them. Dropping it ends it.
pub struct NameServer {
    zone: Arc<Mutex<Zone>>,
}

impl NameServer {
    /// Answers at an address of the network, port 53.
    pub fn at(network: &TestNetwork, address: Ipv4Addr) -> Self {
        let socket = network.inside(|| UdpSocket::bind((address, 53)).expect("a socket for names"));
        socket.set_read_timeout(Some(LOOK)).expect("a timeout");
        let zone = Arc::<Mutex<Zone>>::default();
        let shared = Arc::downgrade(&zone);
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Some(zone) = shared.upgrade() {
                let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
                let answer = answer(&zone, &buffer[..length]);
                socket.send_to(&answer, peer).expect("sent");
            }
        });
        Self { zone }
    }

    fn set(&self, name: &str, content: Content) {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).names.insert(name.to_owned(), content);
    }

    /// Gives a name an address instead of its earlier one.
    pub fn point(&self, name: &str, address: Ipv4Addr) {
        self.set(name, Content::Address(address));
    }

    /// Makes a name an alias of another.
    pub fn alias(&self, name: &str, target: &str) {
        self.set(name, Content::Alias(target.to_owned()));
    }

    /// The names that somebody asked for.
    pub fn asked(&self) -> Vec<String> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner).asked.clone()
    }
}

fn answer(zone: &Mutex<Zone>, message: &[u8]) -> Vec<u8> {
    let question = Message::from_vec(message).expect("a question");
    let query = question.queries.first().expect("a name").clone();
    let name = query.name.to_ascii().trim_end_matches('.').to_lowercase();
    let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
    answer.metadata.authoritative = true;
    answer.add_query(query.clone());
    let mut zone = zone.lock().unwrap_or_else(PoisonError::into_inner);
    zone.asked.push(name.clone());
    let mut current = name;
    loop {
        let owner = Name::from_ascii(format!("{current}.")).expect("a name");
        match zone.names.get(&current) {
            None => {
                answer.metadata.response_code = ResponseCode::NXDomain;
                break;
            }
            Some(Content::Address(address)) => {
                if query.query_type == RecordType::A {
                    answer.add_answer(Record::from_rdata(owner, TTL, RData::A(A(*address))));
                }
                break;
            }
            Some(Content::Alias(target)) => {
                let full = Name::from_ascii(format!("{target}.")).expect("a name");
                answer.add_answer(Record::from_rdata(owner, TTL, RData::CNAME(CNAME(full))));
                current = target.clone();
            }
        }
    }
    answer.to_vec().expect("an answer")
}
