//! Network values of a definition file: ports, URLs and destinations of traffic.

pub mod egress;

use std::net::IpAddr;

use ipnet::IpNet;

use super::fault::{Fault, FaultCode, RuleResult, quoted};
use super::interpolation::check_event_references;
use super::name;
use crate::desktop::stream::{MAX_KEY, check_key};
use crate::network::webhook::OWN_HEADERS;

/// Ports in the guest that services of a template do not use: VNC, the desktop's API, the noVNC page and the
/// HTTP API of this kind of service; 870 is hotdesk's agent.
pub const RESERVED_PORTS: [u16; 5] = [870, 5900, 5999, 6080, 8080];

/// Checks a port in the guest.
///
/// # Errors
/// `OutOfRange` for no port, `Reserved` for one in [`RESERVED_PORTS`].
pub fn guest_port(number: u64) -> RuleResult<u16> {
    let port = any_port(number)?;
    if RESERVED_PORTS.contains(&port) {
        let reserved = RESERVED_PORTS.map(|port| port.to_string()).join(", ");
        let message = format!("must not be {port}, which the computer itself uses (reserved: {reserved})");
        return Err(Fault::new(FaultCode::Reserved, message));
    }
    Ok(port)
}

/// Checks a port number.
///
/// # Errors
/// `OutOfRange` for anything but 1 to 65535.
pub fn any_port(number: u64) -> RuleResult<u16> {
    u16::try_from(number)
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| Fault::new(FaultCode::OutOfRange, format!("must be a port, 1 to 65535, not {number}")))
}

/// Checks a URL: one of the schemes (each with `://`), and a host.
///
/// # Errors
/// `InvalidValue` for anything else, and for a URL with white space or control characters.
pub fn url(text: &str, schemes: &[&str]) -> RuleResult<String> {
    let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let is_plain = !text.chars().any(|c| c.is_whitespace() || c.is_control());
    if is_plain && host.is_some_and(|host| !host.is_empty()) {
        return Ok(text.to_owned());
    }
    Err(Fault::invalid(format!(
        "must be a URL that begins with {}, not {}",
        schemes.join(" or "),
        quoted(text)
    )))
}

/// Checks a URL of `http` or `https`.
///
/// # Errors
/// Those of [`url`].
pub fn http_url(text: &str) -> RuleResult<String> {
    url(text, &["http://", "https://"])
}

/// Checks a URL of `rtmp` or `rtmps`.
///
/// # Errors
/// Those of [`url`].
pub fn rtmp_url(text: &str) -> RuleResult<String> {
    url(text, &["rtmp://", "rtmps://"])
}

/// Checks the URL of a webhook, which may refer to the event behind its host. The template alone decides the
/// host.
///
/// # Errors
/// Those of [`http_url`]; `InvalidValue` for a wrong reference and for one in the host.
pub fn webhook_url(text: &str) -> RuleResult<String> {
    check_event_references(text)?;
    // A reference may have spaces, which a URL has not.
    http_url(&text.replace("{{ ", "{{").replace(" }}", "}}"))?;
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    if rest.split(['/', '?', '#']).next().is_some_and(|host| host.contains("{{")) {
        let message = "must not refer to the event in its host, because a computer does not decide where a webhook goes";
        return Err(Fault::invalid(message).hint("write the host out, and refer to the event behind it"));
    }
    Ok(text.to_owned())
}

/// Checks the name of a webhook's header field (RFC 9110 section 5.6.2). Returns it in lower case.
///
/// # Errors
/// `InvalidValue` for no name, `Reserved` for one in [`OWN_HEADERS`].
pub fn webhook_header(text: &str) -> RuleResult<String> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if text.is_empty() || text.len() > name::MAX_NAME || !text.chars().all(is_token) {
        return Err(Fault::invalid(format!("must be the name of a header field, not {}", quoted(text))));
    }
    let name = text.to_ascii_lowercase();
    if OWN_HEADERS.contains(&name.as_str()) {
        return Err(Fault::new(FaultCode::Reserved, format!("must not be {name}, which the service sets")));
    }
    Ok(name)
}

/// Checks a stream key. The message does not quote it.
///
/// # Errors
/// `InvalidValue` for one that no server of streams takes.
pub fn stream_key(key: &str) -> RuleResult<()> {
    check_key(key).map_err(|_| {
        Fault::invalid(format!("must be 1 to {MAX_KEY} printable ASCII characters without white space"))
    })
}

/// Reads a destination of traffic: an IP address, a network in CIDR notation, or a domain name, which may begin
/// with `*.`. Returns it in lower case; a network with its host bits cleared, and one of a single address as the
/// address.
///
/// # Errors
/// `InvalidValue` for anything else.
pub fn destination(text: &str) -> RuleResult<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    if let Ok(network) = text.parse::<IpNet>() {
        let is_address = network.prefix_len() == network.max_prefix_len();
        return Ok(if is_address { network.addr().to_string() } else { network.trunc().to_string() });
    }
    let domain = text.to_ascii_lowercase();
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let labels = domain.strip_prefix("*.").unwrap_or(&domain);
    // A last label of digits would be an address that is none (RFC 1123 section 2.1).
    let is_address =
        labels.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if domain.len() <= 253 && !is_address && labels.split('.').all(is_label) {
        return Ok(domain);
    }
    let message = format!("must be a domain, an IP address or a CIDR network, not {}", quoted(text));
    let fault = Fault::invalid(message);
    Err(if text.contains("://") {
        fault.hint("write the host alone, without scheme and path")
    } else {
        fault
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_reserved_or_none() {
        assert_eq!(guest_port(3000), Ok(3000));
        for (number, code) in [
            (0, FaultCode::OutOfRange),
            (65_536, FaultCode::OutOfRange),
            (8080, FaultCode::Reserved),
            (5900, FaultCode::Reserved),
        ] {
            assert_eq!(guest_port(number).unwrap_err().code, code, "{number}");
        }
        assert_eq!(any_port(8080), Ok(8080));
    }

    #[test]
    fn destinations_have_one_form() {
        for (text, shown) in [
            ("Example.COM", "example.com"),
            ("*.example.com", "*.example.com"),
            ("10.0.0.1", "10.0.0.1"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.0.0.1/32", "10.0.0.1"),
            ("2001:DB8::1/128", "2001:db8::1"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(destination(text).unwrap(), shown);
            assert_eq!(destination(shown).unwrap(), shown);
        }
        for bad in
            ["", "*", "*.", "a..b", "-a.example", "10.0.0.256", "10.0.0.0/33", "a b", "https://example.com/"]
        {
            assert!(destination(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn urls_have_a_scheme_and_a_host() {
        for good in ["http://a", "https://a:1/b?c#d"] {
            assert!(http_url(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "http://", "http:///a", "ftp://a", "http://a b", "http://a\n"] {
            assert!(http_url(bad).is_err(), "{bad}");
        }
        assert!(rtmp_url("rtmps://live.example/app").is_ok() && rtmp_url("http://a").is_err());
    }

    #[test]
    fn t5_a_computer_decides_neither_where_a_webhook_goes_nor_how_it_is_signed() {
        for (url, is_valid) in [
            ("https://example.com/{{ event.path }}?a={{event.b}}", true),
            ("https://{{ event.host }}/x", false),
            ("https://a.{{event.host}}?x", false),
            ("https://example.com/{{ evnt.path }}", false),
            ("ftp://example.com/", false),
        ] {
            assert_eq!(webhook_url(url).is_ok(), is_valid, "{url}");
        }
        assert_eq!(webhook_header("X-Path"), Ok("x-path".to_owned()));
        for (name, code) in [
            ("Webhook-Signature", FaultCode::Reserved),
            ("host", FaultCode::Reserved),
            ("", FaultCode::InvalidValue),
            ("a b", FaultCode::InvalidValue),
        ] {
            assert_eq!(webhook_header(name).unwrap_err().code, code, "{name:?}");
        }
    }

    #[test]
    fn a_refused_stream_key_is_not_quoted() {
        assert_eq!(stream_key("live_1?bandwidth=2"), Ok(()));
        for key in ["", "a key", "clé"] {
            let fault = stream_key(key).unwrap_err();
            assert!(
                fault.code == FaultCode::InvalidValue && (key.is_empty() || !fault.message.contains(key)),
                "{key}"
            );
        }
    }
}
