//! GuardedFetcher fetches of client-chosen URLs: A69, A70 (docs/authentication-rules.md), T6 (docs/security.md).

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hotdesk::domain::error::Kind;
use hotdesk::http::guarded_fetch::{FetchLimits, GuardedFetcher, Trust};

use super::tls::{FixedResolver, HOST, Server};

const BOUNDS: FetchLimits = FetchLimits { bytes: 5 * 1024, timeout: Duration::from_secs(30) };
/// FetchLimits of fetches that must time out.
const SHORT_BOUNDS: FetchLimits = FetchLimits { timeout: Duration::from_secs(5), ..BOUNDS };

/// Counts the connections to a port of this machine at any address.
fn listen() -> (u16, Arc<AtomicUsize>) {
    let first = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
    let port = first.local_addr().expect("an address").port();
    // The same port with IPv6, where the machine has it.
    let second = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).ok();
    let connections = Arc::<AtomicUsize>::default();
    for listener in [Some(first), second].into_iter().flatten() {
        let connections = Arc::clone(&connections);
        std::thread::spawn(move || {
            for _ in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    (port, connections)
}

/// Spellings of hosts that mean this machine, its networks, or addresses that only it can reach.
const HOSTILE: [&str; 62] = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7F.0x0.0x0.0x1",
    "0177.0.0.1",
    "017700000001",
    "127.0.0.1.",
    "127.000.000.001",
    "１２７.0.0.1",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "0.0.0.0",
    "0",
    "0.1.2.3",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2001::1]",
    "[fe80::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fec0::1]",
    "[ff02::1]",
    "[100::1]",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "169.254.0.1",
    "172.16.0.1",
    "172.17.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.1.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "user@127.0.0.1",
];

#[tokio::test(flavor = "multi_thread")]
async fn a70_no_url_leads_to_what_only_this_side_reaches() {
    let (port, connections) = listen();
    let guarded = GuardedFetcher::default();
    for host in HOSTILE {
        let url = format!("https://{host}:{port}/client.json");
        let refused = guarded.get(&url, "application/json", BOUNDS).await.expect_err(&url);
        // The resolver decides whether a name with a trailing dot exists.
        let resolved = host != "localhost.";
        assert!(!resolved || refused.kind == Kind::Invalid, "{url}: {refused}");
    }
    // The same holds for addresses of a name, even when only one of them is forbidden.
    let outside: IpAddr = "198.51.100.7".parse().unwrap();
    for inside in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "100.64.0.1"]
    {
        let inside = inside.parse().unwrap();
        for addresses in [vec![inside], vec![outside, inside], vec![inside, outside]] {
            let trust = Trust { names: Arc::new(FixedResolver(addresses)), ..Trust::default() };
            let url = format!("https://rebinding.example:{port}/client.json");
            let refused =
                GuardedFetcher::new(trust).get(&url, "application/json", BOUNDS).await.expect_err(&url);
            assert!(refused.message.contains("public Internet"), "{inside}: {refused}");
        }
    }
    for url in [
        format!("http://{HOST}:{port}/"),
        format!("ftp://127.0.0.1:{port}/"),
        format!("gopher://127.0.0.1:{port}/_x"),
        "file:///etc/passwd".to_owned(),
        "https://".to_owned(),
        "nonsense".to_owned(),
        format!("https://127.0.0.1:{port}@127.0.0.1:{port}/"),
        format!("https://a\r\nHost: b:{port}/"),
    ] {
        assert!(guarded.get(&url, "application/json", BOUNDS).await.is_err(), "{url}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    // The counter does count.
    drop(std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a listener"));
    let counted = || async { (connections.load(Ordering::SeqCst) == 1).then_some(()) };
    assert!(hotdesk::base::wait::until(Duration::from_secs(5), counted).await.is_some());
}

fn write_response(out: &mut dyn Write, head: &str, body: &[u8]) -> std::io::Result<()> {
    write!(out, "HTTP/1.1 {head}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")?;
    out.write_all(body)
}

fn respond(path: &str, port: u16, out: &mut dyn Write) -> std::io::Result<()> {
    match path {
        "/fits" => write_response(out, "200 OK", &vec![b'x'; BOUNDS.bytes]),
        "/big" => write_response(out, "200 OK", &vec![b'x'; BOUNDS.bytes + 1]),
        "/endless" => {
            write_response(out, "200 OK", b"")?;
            loop {
                out.write_all(&[b'x'; 1024])?;
            }
        }
        "/slow" => {
            write_response(out, "200 OK", b"")?;
            loop {
                out.write_all(b"x")?;
                out.flush()?;
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        "/silent" => {
            std::thread::sleep(Duration::from_secs(30));
            Ok(())
        }
        "/elsewhere" => {
            let target = format!("302 Found\r\nLocation: https://{HOST}:{port}/fits");
            write_response(out, &target, b"")
        }
        _ => write_response(out, "404 Not Found", b""),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a69_a_fetch_takes_so_many_bytes_and_so_much_time_and_follows_nothing() {
    let server = Server::start(respond);
    let guarded = GuardedFetcher::new(server.trusted());
    let get = |path: &str, bounds: FetchLimits| {
        let url = server.url(path);
        let guarded = &guarded;
        async move { guarded.get(&url, "application/json", bounds).await }
    };
    let fits = get("/fits", BOUNDS).await.expect("a body within the bounds");
    assert_eq!((fits.status.as_u16(), fits.body.len()), (200, BOUNDS.bytes));
    for path in ["/big", "/endless"] {
        let refused = get(path, BOUNDS).await.expect_err(path);
        assert!(refused.message.contains("5120 bytes"), "{path}: {refused}");
    }
    let before = server.requests();
    let elsewhere = get("/elsewhere", BOUNDS).await.expect("an answer");
    assert_eq!((elsewhere.status.as_u16(), server.requests()), (302, before + 1));
    for path in ["/slow", "/silent"] {
        let started = Instant::now();
        assert!(get(path, SHORT_BOUNDS).await.is_err(), "{path}");
        let took = started.elapsed();
        assert!(took > SHORT_BOUNDS.timeout / 2 && took < SHORT_BOUNDS.timeout * 4, "{path}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a70_only_the_address_that_was_checked_is_connected_to_and_only_a_good_certificate_is_believed() {
    let server = Server::start(respond);
    // No resolver knows the name: the connection can only go to the checked address.
    let guarded = GuardedFetcher::new(server.trusted());
    assert!(guarded.get(&server.url("/fits"), "application/json", BOUNDS).await.is_ok());
    // Without the test's authority, the client rejects the certificate and sends no request.
    let requests = server.requests();
    let without_authority = GuardedFetcher::new(Trust { authority: None, ..server.trusted() });
    assert!(without_authority.get(&server.url("/fits"), "application/json", BOUNDS).await.is_err());
    let other_name = format!("https://other.test:{}/fits", server.port);
    assert!(guarded.get(&other_name, "application/json", BOUNDS).await.is_err());
    assert_eq!(server.requests(), requests);
    // With the default rules about addresses, the client does not even connect.
    let connected = server.connections();
    let default_rules =
        GuardedFetcher::new(Trust { may_reach: Trust::default().may_reach, ..server.trusted() });
    assert!(default_rules.get(&server.url("/fits"), "application/json", BOUNDS).await.is_err());
    assert_eq!(server.connections(), connected);
}
