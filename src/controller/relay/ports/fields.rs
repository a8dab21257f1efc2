//! Header fields between a client and a program in a computer.
//!
//! The program gets no credential of the client: `Authorization` and `Cookie` end here. Its answer is content of a
//! stranger beside the controller's own pages. So it runs in a sandbox without an origin, and only fields of a list pass
//! ([`super::field_lists`]). Cookies are dropped in both directions: a cookie of the controller's origin would reach every
//! other computer's pages.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use cookie::Cookie;
use url::{Position, Url};

use super::field_lists::{SOCKET_FIELDS, passes_at_own_host, passes_in_answer, passes_in_request};
use super::links::cookie_name;
use crate::relay::http::end_to_end_fields;
use hotdesk_http::untrusted_content::forbid_caching;

/// Rights of a program in a browser: it runs, but not as a page of the controller, and cannot move the page around it.
const POLICY: HeaderValue =
    HeaderValue::from_static("sandbox allow-scripts allow-forms allow-popups allow-downloads");
/// The port that an answer comes from: it tells the program's answers from the controller's own.
const PORT: HeaderName = HeaderName::from_static("x-hotdesk-port");

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
const UPGRADE: HeaderValue = HeaderValue::from_static("upgrade");

/// Where a request comes from and goes to.
#[derive(Debug)]
pub(super) struct ForwardedRequest<'a> {
    /// The client's address; `None` for a process on this machine.
    pub address: Option<IpAddr>,
    /// Public origin of the controller, or of the port.
    pub origin: &'a str,
    /// Path of the program's root there; empty at a host of the port, where it has an origin of its own.
    pub prefix: &'a str,
    /// Path and query of the request at the program.
    pub target: &'a str,
    pub port: u16,
    /// Further fields that pass, in both directions (`web.port_fields`).
    pub configured: &'a [HeaderName],
}

impl ForwardedRequest<'_> {
    fn has_own_host(&self) -> bool {
        self.prefix.is_empty()
    }

    fn scheme_and_host(&self) -> (&str, &str) {
        self.origin.split_once("://").unwrap_or(("http", self.origin))
    }
}

/// Whether a request asks for a WebSocket (RFC 6455 section 4.1).
pub(super) fn asks_for_socket(method: &Method, headers: &HeaderMap) -> bool {
    let names = |field, word: &str| {
        let values = headers.get_all(field).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|found| found.trim().eq_ignore_ascii_case(word))
    };
    method == Method::GET && names(header::UPGRADE, "websocket") && names(header::CONNECTION, "upgrade")
}

/// Returns the fields of a message whose names pass.
fn listed(headers: &HeaderMap, passes: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let crossed = end_to_end_fields(headers);
    let passed = crossed.iter().filter(|(name, _)| passes(name));
    passed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the fields of a request to a program.
pub(super) fn request_fields(
    headers: &HeaderMap,
    forwarded: &ForwardedRequest<'_>,
    upgrade: bool,
) -> HeaderMap {
    let mut fields = listed(headers, |name| passes_in_request(name, forwarded.configured));
    let (scheme, host) = forwarded.scheme_and_host();
    let address = forwarded.address.map_or_else(|| "127.0.0.1".to_owned(), |address| address.to_string());
    let own = [
        ("host", format!("localhost:{}", forwarded.port)),
        ("x-forwarded-for", address),
        ("x-forwarded-host", host.to_owned()),
        ("x-forwarded-prefix", forwarded.prefix.to_owned()),
        ("x-forwarded-proto", scheme.to_owned()),
    ];
    for (name, value) in own {
        // The origin is the configuration's or has the characters of a host alone.
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.insert(name, value);
        }
    }
    if forwarded.has_own_host() {
        fields.remove("x-forwarded-prefix");
        // The hosts of ports are one site, so a page of another one sends the program's cookies: the program must see which page
        // asks. Its own pages are those of the host that it knows.
        if let Some(page) = headers.get(header::ORIGIN) {
            let is_own = page.as_bytes() == forwarded.origin.as_bytes();
            let own =
                is_own.then(|| HeaderValue::try_from(format!("http://localhost:{}", forwarded.port)).ok());
            fields.extend([(header::ORIGIN, own.flatten().unwrap_or_else(|| page.clone()))]);
        }
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let own: Vec<&str> =
            cookies.flat_map(|field| field.split(';')).map(str::trim).filter(is_of_program).collect();
        if let Some(Ok(own)) = (!own.is_empty()).then(|| HeaderValue::try_from(own.join("; "))) {
            fields.insert(header::COOKIE, own);
        }
    }
    if upgrade {
        fields.insert(header::CONNECTION, UPGRADE);
        fields.insert(header::UPGRADE, WEBSOCKET);
    }
    fields
}

/// Returns the fields of a program's answer to the client.
pub(super) fn answer_fields(headers: &HeaderMap, forwarded: &ForwardedRequest<'_>) -> HeaderMap {
    let mut fields = listed(headers, |name| passes_in_answer(name, forwarded.configured));
    let to = headers.get(header::LOCATION).and_then(|to| to.to_str().ok());
    if let Some(Ok(to)) = to.and_then(|to| location(to, forwarded)).map(HeaderValue::try_from) {
        fields.insert(header::LOCATION, to);
    }
    if forwarded.has_own_host() {
        fields.extend(listed(headers, passes_at_own_host));
        for cookie in headers.get_all(header::SET_COOKIE).iter().filter(|value| is_own_cookie(value)) {
            fields.append(header::SET_COOKIE, cookie.clone());
        }
    } else {
        fields.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    }
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(PORT, HeaderValue::from(forwarded.port));
    forbid_caching(&mut fields);
    fields
}

/// Whether a cookie in a request is the program's, not one that the controller set for the port's host.
fn is_of_program(cookie: &&str) -> bool {
    !cookie.is_empty() && ![true, false].iter().any(|secure| names(cookie, cookie_name(*secure)))
}

fn names(cookie: &str, name: &str) -> bool {
    cookie.split('=').next().is_some_and(|found| found.trim() == name)
}

/// Whether a cookie of a program stays at the port's host: one with a domain would reach other computers' pages.
fn is_own_cookie(value: &HeaderValue) -> bool {
    let parsed = value.to_str().ok().and_then(|text| Cookie::parse(text).ok());
    parsed.is_some_and(|cookie| {
        cookie.domain().is_none() && ![true, false].iter().any(|secure| cookie.name() == cookie_name(*secure))
    })
}

/// Returns the fields of an accepted WebSocket.
pub(super) fn socket_fields(headers: &HeaderMap) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for name in SOCKET_FIELDS.map(HeaderName::from_static) {
        fields.extend(headers.get(&name).map(|value| (name, value.clone())));
    }
    fields.insert(header::CONNECTION, UPGRADE);
    fields.insert(header::UPGRADE, WEBSOCKET);
    fields
}

/// Returns a `Location` of a program as the client must see it: what the program has is below its path at the
/// controller, and other servers stay. It is resolved first, as clients do: a client keeps its key for this origin, so no
/// dot segment may lead to another route. `None` for what is no HTTP URL.
fn location(to: &str, forwarded: &ForwardedRequest<'_>) -> Option<String> {
    let (scheme, _) = forwarded.scheme_and_host();
    let base = Url::parse(&format!("{scheme}://localhost:{}{}", forwarded.port, forwarded.target)).ok()?;
    let url = base.join(to).ok().filter(|url| ["http", "https"].contains(&url.scheme()))?;
    let host = url.host_str()?;
    let is_program = ["localhost", "127.0.0.1", "[::1]"].contains(&host)
        && url.port_or_known_default() == Some(forwarded.port);
    let own = Url::parse(forwarded.origin).ok();
    // Whatever its port and user: other spellings of the origin must not be a way around.
    let is_controller = own.as_ref().and_then(Url::host_str) == Some(host);
    if !is_program && !is_controller {
        return Some(url.into());
    }
    let path = &url[Position::BeforePath..];
    let below = path.strip_prefix(forwarded.prefix);
    // A program that honours `X-Forwarded-Prefix`.
    let is_below = below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']));
    Some(if is_below { path.to_owned() } else { format!("{}{path}", forwarded.prefix) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARDED: ForwardedRequest<'_> = ForwardedRequest {
        address: None,
        origin: "https://desk.example",
        prefix: "/api/computers/c/ports/3000",
        target: "/a/b?c",
        port: 3000,
        configured: &[],
    };

    fn fields(named: &[(&'static str, &'static str)]) -> HeaderMap {
        named
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_program_sees_no_credential_and_where_the_request_comes_from() {
        let sent = fields(&[
            ("authorization", "Bearer sk_live_x"),
            ("cookie", "hotdesk_session=1"),
            ("proxy-authorization", "Basic x"),
            ("host", "desk.example"),
            ("origin", "https://desk.example"),
            ("referer", "https://desk.example/console"),
            ("x-forwarded-for", "192.0.2.9"),
            ("x-forwarded-port", "1"),
            ("x-real-ip", "192.0.2.9"),
            ("cf-access-jwt-assertion", "x"),
            ("x-ms-token-aad-access-token", "x"),
            ("x-pomerium-jwt-assertion", "x"),
            ("x-authentik-jwt", "x"),
            ("x-vouch-idp-accesstoken", "x"),
            ("x-goog-authenticated-user-email", "x"),
            ("x-auth-request-access-token", "x"),
            ("remote-user", "ada"),
            ("forwarded", "for=192.0.2.9"),
            ("connection", "keep-alive, x-once"),
            ("x-once", "1"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("te", "trailers"),
            ("accept", "text/html"),
            ("x-token", "own"),
            ("content-type", "a/b"),
        ]);
        let passed = request_fields(&sent, &FORWARDED, false);
        let expected = fields(&[
            ("accept", "text/html"),
            ("x-token", "own"),
            ("content-type", "a/b"),
            ("host", "localhost:3000"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-host", "desk.example"),
            ("x-forwarded-prefix", "/api/computers/c/ports/3000"),
            ("x-forwarded-proto", "https"),
        ]);
        assert_eq!(passed, expected);
        let upgraded = request_fields(&sent, &FORWARDED, true);
        assert_eq!((&upgraded["connection"], &upgraded["upgrade"]), (&UPGRADE, &WEBSOCKET));
    }

    #[test]
    fn an_answer_affects_its_own_content_alone() {
        let sent = fields(&[
            ("content-type", "text/html"),
            ("etag", "1"),
            ("x-total-count", "3"),
            ("set-cookie", "a=b"),
            ("clear-site-data", "*"),
            ("alt-svc", "h3"),
            ("access-control-allow-origin", "*"),
            ("content-security-policy", "default-src *"),
            ("cache-control", "public"),
            ("service-worker-allowed", "/"),
            ("strict-transport-security", "max-age=1"),
            ("www-authenticate", "Basic"),
            ("refresh", "0; url=/"),
            ("link", "</x>; rel=preload"),
            ("x-accel-redirect", "/secret"),
            ("x-accel-expires", "1"),
            ("x-sendfile", "/secret"),
            ("x-reproxy-url", "/secret"),
            ("x-proxy-of-tomorrow", "/secret"),
            ("x-robots-tag", "none"),
            ("surrogate-control", "max-age=1"),
            ("x-envoy-immediate-health-check-fail", "1"),
            ("x-litespeed-location", "/secret"),
            ("x-frame-options", "ALLOWALL"),
            ("x-content-type-options", "none"),
            ("x-hotdesk-port", "1"),
            ("x-request-id", "1"),
        ]);
        let expected = fields(&[
            ("content-type", "text/html"),
            ("etag", "1"),
            ("x-total-count", "3"),
            ("content-security-policy", "sandbox allow-scripts allow-forms allow-popups allow-downloads"),
            ("x-content-type-options", "nosniff"),
            ("x-hotdesk-port", "3000"),
            ("cache-control", "private, no-store"),
        ]);
        assert_eq!(answer_fields(&sent, &FORWARDED), expected);
        assert!(!POLICY.to_str().unwrap().contains("allow-same-origin"));
    }

    #[test]
    fn the_operator_adds_fields_and_none_of_them_is_a_credential() {
        let configured =
            ["x-robots-tag", "authorization", "set-cookie", "x-hotdesk-port"].map(HeaderName::from_static);
        let sent = fields(&[
            ("x-robots-tag", "none"),
            ("authorization", "Bearer x"),
            ("set-cookie", "a=b"),
            ("x-hotdesk-port", "1"),
        ]);
        let forwarded = ForwardedRequest { configured: &configured, ..FORWARDED };
        let asked = request_fields(&sent, &forwarded, false);
        let answered = answer_fields(&sent, &forwarded);
        for passed in [asked, answered.clone()] {
            assert_eq!(passed["x-robots-tag"], "none");
            assert!(!passed.contains_key("authorization") && !passed.contains_key("set-cookie"));
        }
        assert_eq!(answered["x-hotdesk-port"], "3000");
    }

    #[test]
    fn at_its_own_host_a_program_has_its_own_cookies_and_no_sandbox() {
        let own = ForwardedRequest { origin: "https://3000-c.computers.example", prefix: "", ..FORWARDED };
        let sent = fields(&[
            ("cookie", "a=1; __Host-hotdesk-port=x; hotdesk-port=y;b=2"),
            ("authorization", "Bearer x"),
        ]);
        let passed = request_fields(&sent, &own, false);
        assert_eq!(passed["cookie"], "a=1; b=2");
        assert!(!passed.contains_key("authorization") && !passed.contains_key("x-forwarded-prefix"));
        assert_eq!(passed["x-forwarded-host"], "3000-c.computers.example");
        assert!(
            !request_fields(&fields(&[("cookie", "hotdesk-port=y")]), &own, false).contains_key("cookie")
        );
        let mut sent = fields(&[
            ("content-security-policy", "default-src 'self'"),
            ("clear-site-data", "*"),
            ("strict-transport-security", "max-age=1; includeSubDomains"),
            ("location", "http://localhost:3000/next"),
        ]);
        for cookie in
            ["a=1; Path=/", "b=2; Domain=computers.example", "__Host-hotdesk-port=z", "hotdesk-port=z", "c=3"]
        {
            sent.append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        let answered = answer_fields(&sent, &own);
        let cookies: Vec<_> = answered.get_all(header::SET_COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; Path=/", "c=3"]);
        assert_eq!(answered["content-security-policy"], "default-src 'self'");
        assert_eq!(
            (&answered["location"], &answered["cache-control"]),
            (&"/next".parse().unwrap(), &"private, no-store".parse().unwrap())
        );
        assert!(
            !answered.contains_key("clear-site-data") && !answered.contains_key("strict-transport-security")
        );
    }

    #[test]
    fn at_its_own_host_a_program_sees_which_page_asks() {
        const OWN: &str = "https://3000-c.computers.example";
        let own = ForwardedRequest { origin: OWN, prefix: "", ..FORWARDED };
        for (page, seen) in [
            // Its own pages are those of the host that the program knows.
            (OWN, "http://localhost:3000"),
            ("https://3001-c.computers.example", "https://3001-c.computers.example"),
            ("http://3000-c.computers.example", "http://3000-c.computers.example"),
            ("https://evil.example", "https://evil.example"),
            ("null", "null"),
        ] {
            let passed = request_fields(&fields(&[("origin", page), ("referer", page)]), &own, false);
            assert_eq!(passed["origin"], seen, "{page}");
            assert!(!passed.contains_key("referer"), "{page}");
        }
        assert!(!request_fields(&fields(&[]), &own, false).contains_key("origin"));
    }

    #[test]
    fn locations_of_the_program_s_root_lead_below_its_path() {
        let below = |path: &str| format!("{}{path}", FORWARDED.prefix);
        for (to, expected) in [
            ("/", below("/")),
            ("/login?next=%2F", below("/login?next=%2F")),
            ("http://localhost:3000/a", below("/a")),
            ("http://127.0.0.1:3000", below("/")),
            ("//[::1]:3000?x", below("/?x")),
            ("https://desk.example/login", below("/login")),
            ("https://desk.example/api/computers/c/ports/3000/login", below("/login")),
            ("/api/computers/c/ports/3000", below("")),
            ("/api/computers/c/ports/30001", below("/api/computers/c/ports/30001")),
            ("login", below("/a/login")),
            ("../a", below("/a")),
            ("../../../../../keys", below("/keys")),
            ("/../../../../other", below("/other")),
            ("%2e%2e/%2E./.%2e/x", below("/x")),
            ("\\\\desk.example\\..\\x", below("/x")),
            ("/api/computers/c/ports/3000/../../d/stop", below("/api/computers/c/d/stop")),
            ("https://DESK.example:443/x", below("/x")),
            ("HTTP://user@desk.example:8700/x", below("/x")),
            ("https://other.example/", "https://other.example/".to_owned()),
            ("http://localhost:4000/", "http://localhost:4000/".to_owned()),
            ("//other.example/a", "https://other.example/a".to_owned()),
        ] {
            assert_eq!(location(to, &FORWARDED), Some(expected), "{to}");
        }
        for to in ["javascript:alert(1)", "data:,x", "http://", "file:///etc/passwd"] {
            assert_eq!(location(to, &FORWARDED), None, "{to}");
        }
    }

    #[test]
    fn only_an_upgrade_to_websocket_is_one() {
        let asked = |upgrade, connection| fields(&[("upgrade", upgrade), ("connection", connection)]);
        assert!(asks_for_socket(&Method::GET, &asked("WebSocket", "keep-alive, Upgrade")));
        assert!(!asks_for_socket(&Method::POST, &asked("websocket", "upgrade")));
        assert!(!asks_for_socket(&Method::GET, &asked("h2c", "upgrade")));
        assert!(!asks_for_socket(&Method::GET, &asked("websocket", "close")));
    }
}
