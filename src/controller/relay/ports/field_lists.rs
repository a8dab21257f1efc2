//! Names of the header fields that pass between a client and a program in a computer.
//!
//! Exact names only. Servers in front add fields with the person's tokens to requests, and obey fields of answers, under
//! names that no list of exceptions knows in advance. The operator adds names (`web.port_fields`).

use axum::http::HeaderName;

use hotdesk_domain::error::{Error, Result};

/// Most names of `web.port_fields`: each field of each message is compared with all of them.
const MAX_CONFIGURED: usize = 64;

/// Fields of requests: those of the content, of fetch and of sockets, and what common frameworks need.
const REQUEST_FIELDS: &[&str] = &[
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "access-control-request-headers",
    "access-control-request-method",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "date",
    "dnt",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-event-id",
    "pragma",
    "prefer",
    "priority",
    "range",
    "save-data",
    "upgrade-insecure-requests",
    "user-agent",
    "want-content-digest",
    // What browsers tell of themselves and of the page that asks.
    "sec-ch-ua",
    "sec-ch-ua-mobile",
    "sec-ch-ua-platform",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "sec-gpc",
    "sec-purpose",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    // Credentials that clients choose for the program (docs/api/ports.md).
    "x-api-key",
    "x-token",
    // Tokens against forged requests, and marks of scripted ones.
    "x-csrf-token",
    "x-csrftoken",
    "x-http-method-override",
    "x-requested-with",
    "x-xsrf-token",
    "x-xsrftoken",
    // htmx, Inertia, Turbo, SvelteKit and Next.js.
    "hx-boosted",
    "hx-current-url",
    "hx-history-restore-request",
    "hx-prompt",
    "hx-request",
    "hx-target",
    "hx-trigger",
    "hx-trigger-name",
    "next-action",
    "next-router-prefetch",
    "next-router-state-tree",
    "next-url",
    "rsc",
    "turbo-frame",
    "x-inertia",
    "x-inertia-partial-component",
    "x-inertia-partial-data",
    "x-inertia-version",
    "x-sveltekit-action",
    // MCP servers, gRPC-Web, Connect, traces (W3C), resumable uploads (tus.io) and WebDAV.
    "connect-protocol-version",
    "connect-timeout-ms",
    "depth",
    "destination",
    "grpc-accept-encoding",
    "grpc-timeout",
    "if",
    "lock-token",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "overwrite",
    "timeout",
    "traceparent",
    "tracestate",
    "tus-resumable",
    "upload-checksum",
    "upload-concat",
    "upload-defer-length",
    "upload-length",
    "upload-metadata",
    "upload-offset",
    "x-grpc-web",
    "x-user-agent",
];

/// Fields of answers: those of the content. Others affect a whole origin (cookies, `Clear-Site-Data`, `Alt-Svc`, CORS, and
/// future ones) or a server in front (`X-Accel-Redirect`).
const ANSWER_FIELDS: &[&str] = &[
    "accept-ranges",
    "allow",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "preference-applied",
    "retry-after",
    "server-timing",
    "sourcemap",
    "vary",
    // Pages of lists.
    "x-next-page",
    "x-page",
    "x-per-page",
    "x-prev-page",
    "x-total",
    "x-total-count",
    "x-total-pages",
    // htmx and Inertia.
    "hx-location",
    "hx-push-url",
    "hx-redirect",
    "hx-refresh",
    "hx-replace-url",
    "hx-reselect",
    "hx-reswap",
    "hx-retarget",
    "hx-trigger",
    "hx-trigger-after-settle",
    "hx-trigger-after-swap",
    "x-inertia",
    "x-inertia-location",
    // MCP servers, gRPC-Web, resumable uploads (tus.io) and WebDAV.
    "dav",
    "grpc-encoding",
    "grpc-message",
    "grpc-status",
    "lock-token",
    "mcp-protocol-version",
    "mcp-session-id",
    "tus-extension",
    "tus-max-size",
    "tus-resumable",
    "tus-version",
    "upload-expires",
    "upload-length",
    "upload-metadata",
    "upload-offset",
];

/// Fields of answers that also pass at a host of a port: there they affect the pages of that port alone.
const OWN_HOST_FIELDS: &[&str] = &[
    "access-control-allow-credentials",
    "access-control-allow-headers",
    "access-control-allow-methods",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "content-security-policy",
    "link",
    "referrer-policy",
    "service-worker-allowed",
];

/// Fields of an accepted WebSocket (RFC 6455 section 4.2.2).
pub(super) const SOCKET_FIELDS: [&str; 3] =
    ["sec-websocket-accept", "sec-websocket-extensions", "sec-websocket-protocol"];

/// Reads `web.port_fields`, names separated by commas.
///
/// # Errors
/// `Internal` with a sentence for what is no name of a field, and for too many of them.
pub fn parse_configured(setting: &str) -> Result<Vec<HeaderName>> {
    let names = setting.split(',').map(str::trim).filter(|name| !name.is_empty());
    let invalid = |why: String| Error::failed(format!("configuration: web.port_fields: {why}"));
    let found: Vec<HeaderName> = names
        .map(|name| {
            name.parse()
                .map_err(|_| invalid(format!("{name:?} is no name of a header field: write X-Example")))
        })
        .collect::<Result<_>>()?;
    if found.len() > MAX_CONFIGURED {
        return Err(invalid(format!("{} names: at most {MAX_CONFIGURED} are allowed", found.len())));
    }
    Ok(found)
}

/// Whether a field of a request passes.
pub(super) fn passes_in_request(name: &HeaderName, configured: &[HeaderName]) -> bool {
    REQUEST_FIELDS.contains(&name.as_str()) || configured.contains(name)
}

/// Whether a field of an answer passes.
pub(super) fn passes_in_answer(name: &HeaderName, configured: &[HeaderName]) -> bool {
    ANSWER_FIELDS.contains(&name.as_str()) || configured.contains(name)
}

/// Whether a field of an answer passes at a host of a port, besides those of every answer.
pub(super) fn passes_at_own_host(name: &HeaderName) -> bool {
    OWN_HOST_FIELDS.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_list_is_one_that_a_message_can_have() {
        for name in [REQUEST_FIELDS, ANSWER_FIELDS, OWN_HOST_FIELDS, &SOCKET_FIELDS[..]].concat() {
            assert_eq!(name.parse::<HeaderName>().expect("a name").as_str(), name);
        }
    }

    #[test]
    fn configured_fields_are_names_and_bounded() {
        assert!(parse_configured("").unwrap().is_empty());
        let both = parse_configured(" X-Own,grafana-org, ").unwrap();
        assert_eq!(both, ["x-own", "grafana-org"]);
        assert!(passes_in_request(&both[0], &both) && passes_in_answer(&both[1], &both));
        for wrong in ["a b", "x-own: 1", "ä"] {
            let refused = parse_configured(wrong).unwrap_err();
            assert!(refused.message.contains("web.port_fields"), "{wrong}: {refused}");
        }
        assert!(parse_configured(&"a,".repeat(MAX_CONFIGURED + 1)).is_err());
    }
}
