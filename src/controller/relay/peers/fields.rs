//! Header fields between a follower and the leader.

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use hotdesk_http::serve::Peer;

/// Field of a forwarded request. A follower forwards no request that has it, so that none goes round.
pub(super) const FORWARDED: HeaderName = HeaderName::from_static("x-hotdesk-forwarded");
/// Field of an answer of the leader whose client may pause for as long as that of [`ClientMayPause`].
///
/// [`ClientMayPause`]: hotdesk_http::serve::ClientMayPause
pub(super) const MAY_PAUSE: HeaderName = HeaderName::from_static("x-hotdesk-may-pause");
/// Addresses of the client and the proxies, which the leader believes from its trusted proxies alone.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Fields that concern one connection only (RFC 9110 section 7.6.1). `Expect` is answered by this controller.
const DROPPED: [HeaderName; 8] = [
    header::CONNECTION,
    header::EXPECT,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Returns the protocol that a message changes to.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<&HeaderValue> {
    let is_asked = options(headers).any(|option| option.eq_ignore_ascii_case("upgrade"));
    headers.get(header::UPGRADE).filter(|_| is_asked)
}

/// Returns the fields of a message that pass to the other side; of an upgrade, those of the upgrade too.
pub(super) fn passing(headers: &HeaderMap, is_upgrade: bool) -> HeaderMap {
    let crosses = |name: &HeaderName| {
        !DROPPED.contains(name) && !options(headers).any(|option| option.eq_ignore_ascii_case(name.as_str()))
    };
    let mut passed: HeaderMap = headers
        .iter()
        .filter(|(name, _)| crosses(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(protocol) = upgrade(headers).filter(|_| is_upgrade) {
        passed.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        passed.insert(header::UPGRADE, protocol.clone());
    }
    passed
}

/// Returns the fields of a request to the leader.
pub(super) fn of_request(parts: &Parts, is_upgrade: bool) -> HeaderMap {
    let mut fields = passing(&parts.headers, is_upgrade);
    let peer = match parts.extensions.get::<ConnectInfo<Peer>>() {
        Some(ConnectInfo(Peer::Tcp(address))) => address.ip().to_canonical().to_string(),
        Some(ConnectInfo(Peer::Local)) | None => "127.0.0.1".to_owned(),
    };
    let earlier = parts.headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let chain: Vec<&str> = earlier.chain([peer.as_str()]).collect();
    if let Ok(chain) = HeaderValue::try_from(chain.join(", ")) {
        fields.insert(FORWARDED_FOR, chain);
    }
    fields.insert(FORWARDED, HeaderValue::from_static("1"));
    fields
}

/// Returns the options of `Connection`, which may name further fields of the connection.
fn options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(fields: &[(&str, &str)], peer: &str) -> Parts {
        let mut request = Request::builder();
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        parts.extensions.insert(ConnectInfo(Peer::Tcp(peer.parse().unwrap())));
        parts
    }

    #[test]
    fn credentials_pass_and_fields_of_the_connection_do_not() {
        let sent = parts(
            &[
                ("host", "desk.example.org"),
                ("authorization", "Bearer x"),
                ("cookie", "a=b"),
                ("connection", "close, X-Drop"),
                ("x-drop", "1"),
                ("transfer-encoding", "chunked"),
                ("expect", "100-continue"),
                ("upgrade", "websocket"),
                ("x-hotdesk-forwarded", "no"),
            ],
            "192.0.2.1:1",
        );
        let fields = of_request(&sent, false);
        let mut names: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "cookie", "host", "x-forwarded-for", "x-hotdesk-forwarded"]);
        assert_eq!(fields[FORWARDED], "1");
    }

    #[test]
    fn an_upgrade_passes_when_the_connection_asks_for_it() {
        for (connection, asked) in [("Upgrade", true), ("keep-alive, upgrade", true), ("close", false)] {
            let sent = parts(&[("connection", connection), ("upgrade", "websocket")], "192.0.2.1:1");
            assert_eq!(upgrade(&sent.headers).is_some(), asked, "{connection}");
            let fields = of_request(&sent, asked);
            assert_eq!(fields.contains_key(header::UPGRADE), asked, "{connection}");
            assert_eq!(fields.get(header::CONNECTION).is_some_and(|value| value == "upgrade"), asked);
        }
    }

    #[test]
    fn the_address_of_the_client_is_appended() {
        for (earlier, peer, chain) in [
            (&[][..], "192.0.2.1:5", "192.0.2.1"),
            (&[("x-forwarded-for", "203.0.113.5")], "192.0.2.1:5", "203.0.113.5, 192.0.2.1"),
            (
                &[("x-forwarded-for", "a"), ("x-forwarded-for", "203.0.113.5")],
                "[::ffff:192.0.2.1]:5",
                "a, 203.0.113.5, 192.0.2.1",
            ),
        ] {
            let fields = of_request(&parts(earlier, peer), false);
            assert_eq!(fields[FORWARDED_FOR], chain);
        }
    }
}
