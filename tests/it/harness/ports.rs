//! Ports for programs that listen later.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use rand::RngExt;

/// Usual services have lower ports. The kernel of most hosts gives higher ones to connections, and to who asks
/// for any port.
const PORTS: Range<u16> = 10_000..32_768;

/// A port of the loopback for a program that listens on it later. No other program gets it meanwhile by
/// chance, unlike a port that the kernel chose.
pub fn free_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| rand::rng().random_range(PORTS));
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    ports.find(is_free).expect("a free port")
}
