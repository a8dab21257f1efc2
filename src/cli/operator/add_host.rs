//! `hotdesk hosts add`: join token for a machine that becomes a host of an Incus cluster.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use serde_json::json;

use crate::failure::Outcome;
use crate::operator::serve;
use crate::output;
use hotdesk_engine::JoinToken;

/// Port of an Incus server by default.
const PORT: u16 = 8443;
/// Longest name of a host: that of a label (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 63;

/// Longest name of a machine in characters (RFC 1035, section 2.3.4).
const MAX_HOST: usize = 253;

/// What is known of the new host.
#[derive(Debug, Args)]
pub struct NewHost {
    /// Name of the new host: letters, digits, dashes, dots and underscores.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Address of the new host for the others, HOST or HOST:PORT; without it, `incus admin init` asks for it.
    #[arg(long, value_parser = parse_address)]
    address: Option<String>,
    /// Device or folder of its storage pool [default: a file, or a folder with the driver dir; Incus makes it].
    #[arg(long, requires = "address", value_parser = parse_source)]
    source: Option<String>,
}

/// Makes a join token by the configuration, and prints the command for the new machine.
///
/// # Errors
/// When the configuration does not use Incus, the server is in no cluster, or refuses.
pub fn run(options: &serve::Options, host: &NewHost, json: bool) -> Outcome<()> {
    let config = options.load()?;
    let settings = config.engine_settings()?;
    let made = crate::runtime()?.block_on(hotdesk_engine::new_join_token(settings, &host.name))?;
    let command = host.command(&config.engines.incus.pool, &made);
    if json {
        let (token, expires_at) = (made.token.reveal(), &made.expires_at);
        let answer =
            json!({ "name": host.name, "token": token, "expires_at": expires_at, "command": command });
        return output::line(&answer.to_string());
    }
    output::line(&host.instructions(&command, &made))
}

impl NewHost {
    /// The command by which the new host joins. With an address it asks nothing, and has the token.
    fn command(&self, pool: &str, made: &JoinToken) -> String {
        let Some(address) = &self.address else { return "incus admin init".to_owned() };
        let (name, token) = (&self.name, made.token.reveal());
        let storage = self.source.as_ref().map(|source| {
            let entry = format!("entity: storage-pool, name: \"{pool}\", key: source, value: \"{source}\"");
            format!("  member_config:\n  - {{ {entry} }}\n")
        });
        format!(
            "incus admin init --preseed <<'END'\ncluster:\n  enabled: true\n  server_name: \"{name}\"\n  \
             server_address: \"{address}\"\n  cluster_token: \"{token}\"\n{}END",
            storage.unwrap_or_default()
        )
    }

    /// The text for people.
    fn instructions(&self, command: &str, made: &JoinToken) -> String {
        let Self { name, address, .. } = self;
        let expires_at = &made.expires_at;
        let answers = match address {
            Some(_) => String::new(),
            None => format!(
                "\n\nAnswer that it uses clustering and joins an existing cluster, with this token:\n\n{}",
                made.token.reveal()
            ),
        };
        format!(
            "Run this as root on {name}, where Incus is newly installed. The token is secret, works once, and ends \
             at {expires_at}.\n\n{command}{answers}\n\nThen run `hotdesk image publish` here."
        )
    }
}

/// Accepts a name that needs no quotes in a command.
fn parse_name(text: &str) -> Result<String, String> {
    let is_name = text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.len() <= MAX_NAME
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if is_name {
        return Ok(text.to_owned());
    }
    Err(format!(
        "it must have at most {MAX_NAME} letters, digits, dashes, dots and underscores, and begin with a letter or \
         a digit"
    ))
}

/// Adds the default port to an address without one.
fn parse_address(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address.to_string());
    }
    if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, PORT).to_string());
    }
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok().filter(|port| *port != 0)),
        None => (text, Some(PORT)),
    };
    match port {
        Some(port) if host.len() <= MAX_HOST && host.split('.').all(|label| parse_name(label).is_ok()) => {
            Ok(format!("{host}:{port}"))
        }
        Some(_) | None => Err("it must be HOST or HOST:PORT".to_owned()),
    }
}

/// Accepts a path that means itself between double quotes (YAML 1.2.2, section 7.3.1).
fn parse_source(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte)) {
        return Ok(text.to_owned());
    }
    Err("it must be a path without spaces, quotes and backslashes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotdesk_base::secret::Secret;

    fn made() -> JoinToken {
        JoinToken { token: Secret::new("text"), expires_at: "2026-01-02T03:04:05Z".to_owned() }
    }

    fn host(address: Option<&str>, source: Option<&str>) -> NewHost {
        let owned = |text: &str| text.to_owned();
        NewHost { name: owned("m4"), address: address.map(owned), source: source.map(owned) }
    }

    #[test]
    fn with_an_address_one_command_joins_the_cluster() {
        let expected = "incus admin init --preseed <<'END'\n\
                        cluster:\n  enabled: true\n  server_name: \"m4\"\n  server_address: \"10.0.0.4:8443\"\n  \
                        cluster_token: \"text\"\nEND";
        let new = host(Some("10.0.0.4:8443"), None);
        assert_eq!(new.command("desks", &made()), expected);
        let stored = host(Some("10.0.0.4:8443"), Some("/dev/sdb")).command("desks", &made());
        let storage = "  member_config:\n  \
                       - { entity: storage-pool, name: \"desks\", key: source, value: \"/dev/sdb\" }\n";
        assert_eq!(stored, expected.replace("\nEND", &format!("\n{storage}END")));

        let text = new.instructions(expected, &made());
        assert!(
            text.contains(expected) && text.contains("on m4") && text.contains("2026-01-02T03:04:05Z"),
            "{text}"
        );
        assert!(text.ends_with("Then run `hotdesk image publish` here."), "{text}");
        assert_eq!(text.matches("text").count(), 1, "the token is there once: {text}");
    }

    #[test]
    fn without_an_address_incus_asks_for_it_and_for_the_token() {
        let new = host(None, None);
        assert_eq!(new.command("desks", &made()), "incus admin init");
        let text = new.instructions("incus admin init", &made());
        assert!(
            text.contains("\n\nincus admin init\n\n") && text.contains("with this token:\n\ntext\n\n"),
            "{text}"
        );
    }

    #[test]
    fn addresses_get_the_port_of_incus() {
        for (text, expected) in [
            ("10.0.0.4", Some("10.0.0.4:8443")),
            ("10.0.0.4:9443", Some("10.0.0.4:9443")),
            ("2001:db8::4", Some("[2001:db8::4]:8443")),
            ("[2001:db8::4]", Some("[2001:db8::4]:8443")),
            ("[2001:db8::4]:9443", Some("[2001:db8::4]:9443")),
            ("m4.example", Some("m4.example:8443")),
            ("m4.example:9443", Some("m4.example:9443")),
            ("m4.example:", None),
            ("m4.example:0", None),
            ("https://m4.example", None),
            ("m4\"", None),
            ("", None),
        ] {
            assert_eq!(parse_address(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn names_and_sources_need_no_quotes() {
        for (text, expected) in
            [("m4", true), ("m-4.b_c", true), ("", false), ("-m4", false), ("m 4", false), ("m4'", false)]
        {
            assert_eq!(parse_name(text).is_ok(), expected, "{text}");
        }
        for (text, expected) in
            [("/dev/sdb", true), ("", false), ("/a b", false), ("/a\"", false), ("/a\\n", false)]
        {
            assert_eq!(parse_source(text).is_ok(), expected, "{text}");
        }
    }
}
