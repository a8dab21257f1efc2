//! `hotdesk up`: a controller on this host, started in the background if none answers, and a link that signs
//! in.
//!
//! ```text
//! GET health is answered: hotdesk host again if it has died -------------> link
//!    `- not: hotdesk host (root), hotdesk serve -> first key -> profile -----^
//! ```

mod start;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nix::unistd::geteuid;
use reqwest::{Method, Url};

use crate::client::api::Api;
use crate::client::connection;
use crate::client::credentials::{self, Credentials, Profile};
use crate::failure::{Failure, Outcome};
use crate::{GlobalOptions, open, runtime};
use hotdesk_base::secret::Secret;
use start::ControllerStart;

/// Timeout of a look whether a service answers: it may be busy.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(20);
/// Profile for the key, if it is free.
const DEFAULT_PROFILE: &str = "default";

/// `hotdesk up`.
#[derive(Debug, Args)]
pub struct Options {
    /// Configuration file (TOML) of a controller that is started.
    #[arg(long, value_name = "FILE", env = "HOTDESK_CONFIG")]
    config: Option<PathBuf>,
    /// Its data folder: store, files and machines.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Isolations that its computers may have, the default first: sandbox, shared, vm.
    #[arg(long, value_name = "LIST")]
    isolations: Option<String>,
    /// Its guest image folder.
    #[arg(long, value_name = "DIR")]
    image: Option<PathBuf>,
    /// Print the link and open no browser.
    #[arg(long)]
    print: bool,
}

/// Starts a controller if nothing answers at the address of the client, stores the key of a new data folder
/// in a profile, and prints a link that signs in.
///
/// # Errors
/// When nothing answers and the address is not of this host, this user is not root, or the controller does
/// not start; those of `hotdesk open`.
pub fn run(options: &Options, global: &GlobalOptions) -> Outcome<()> {
    let stored = Credentials::load(&credentials::path()?)?;
    let url = url(global.url(), global.profile(), &stored);
    let base = connection::base(&url).map_err(Failure::Usage)?;
    let key = runtime()?.block_on(async {
        let api = Api::keyless(base.clone())?;
        let address = local_address(&base);
        let Some(unreachable) = missing(&api).await? else {
            eprintln!("hotdesk runs at {url}.");
            if let Some(address) = address.filter(|_| geteuid().is_root()) {
                ControllerStart::new(options, address)?.0.replace_helper()?;
            }
            return Ok(None);
        };
        let Some(address) = address else {
            let hint = "`hotdesk up` starts a service only on this host, such as --url http://127.0.0.1:8700";
            return Err(Failure::Failed(format!("{}; {hint}", unreachable.text())));
        };
        // A key is shown once, so its place is tried before.
        let path = credentials::path()?;
        Credentials::load(&path)?.save(&path)?;
        let start = ControllerStart::prepare(options, address)?;
        start.run(&api, |key| store(key, &url, &base, global.profile())).await
    })?;
    global.with_key(key, async |session| {
        open::run(open::Options::without_computer(options.print), session).await
    })
}

/// The server address of the client: `--url`, else that of the profile, else the default.
fn url(given: Option<&str>, profile: Option<&str>, stored: &Credentials) -> String {
    let profile = profile.or(stored.current.as_deref()).and_then(|name| stored.profiles.get(name));
    let url = given.or(profile.map(|profile| profile.url.as_str()));
    url.unwrap_or(connection::DEFAULT_URL).to_owned()
}

/// Why no service answers; `None` when one does.
///
/// # Errors
/// When another program answers.
async fn missing(api: &Api) -> Outcome<Option<Failure>> {
    let request = api.request(Method::GET, api.url(&["health"])).timeout(HEALTH_TIMEOUT);
    match api.exchange(request).await {
        Err(failure) => Ok(Some(failure)),
        Ok(answer) if answer.status.is_success() => Ok(None),
        Ok(answer) => {
            let text = answer.refusal();
            let text = text.text();
            Err(format!("{text}: is it another program? Choose another address with --url").into())
        }
    }
}

/// The address at which a controller of this host answers at the URL; `None` for another host, TLS, or a path
/// before `/api`.
fn local_address(base: &Url) -> Option<SocketAddr> {
    if base.scheme() != "http" || base.path() != "/api" {
        return None;
    }
    let host = base.host_str()?;
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let address: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
    let port = base.port_or_known_default()?;
    address.is_loopback().then(|| SocketAddr::new(address, port))
}

/// Stores the key of a new data folder in a profile, and makes the profile current unless it was named. A key
/// is shown once, so only a profile that was named is replaced.
fn store(key: &Secret, url: &str, base: &Url, named: Option<&str>) -> Outcome<()> {
    let path = credentials::path()?;
    let mut stored = Credentials::load(&path)?;
    let name = named.map_or_else(|| free_profile(base, &stored), str::to_owned);
    stored.profiles.insert(name.clone(), Profile { key: key.clone(), url: url.to_owned() });
    let suffix = match named {
        Some(_) => "",
        None => ", which is the current one now",
    };
    if named.is_none() {
        stored.current = Some(name.clone());
    }
    stored.save(&path)?;
    eprintln!("The account key is stored in profile {name}{suffix}.");
    Ok(())
}

/// A name that no profile has: the default, else one of the address.
fn free_profile(base: &Url, stored: &Credentials) -> String {
    let port = base.port_or_known_default().unwrap_or_default();
    let numbered = (1_u32..).map(|number| match number {
        1 => format!("local-{port}"),
        number => format!("local-{port}-{number}"),
    });
    let mut names = [DEFAULT_PROFILE.to_owned()].into_iter().chain(numbered);
    names.find(|name| !stored.profiles.contains_key(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_started_only_where_the_url_leads_to_this_host() {
        for (url, expected) in [
            ("http://127.0.0.1:8700", Some("127.0.0.1:8700")),
            ("http://localhost:8700/api", Some("127.0.0.1:8700")),
            ("http://[::1]:9000", Some("[::1]:9000")),
            ("http://127.0.0.1", Some("127.0.0.1:80")),
            ("https://127.0.0.1:8700", None),
            ("http://127.0.0.1:8700/desk", None),
            ("http://192.0.2.1:8700", None),
            ("http://desk.example:8700", None),
        ] {
            let found = local_address(&connection::base(url).unwrap()).map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_key_replaces_no_profile_that_was_not_named() {
        let base = connection::base("http://127.0.0.1:8700").unwrap();
        let mut stored = Credentials::default();
        for expected in ["default", "local-8700", "local-8700-2"] {
            let name = free_profile(&base, &stored);
            assert_eq!(name, expected);
            let profile = Profile { key: Secret::new("k"), url: "http://127.0.0.1:8700".to_owned() };
            stored.profiles.insert(name, profile);
        }
    }

    #[test]
    fn the_url_is_the_one_that_every_command_uses() {
        let profile = Profile { key: Secret::new("k"), url: "http://there:1".to_owned() };
        let profiles = [("work".to_owned(), profile)].into();
        let stored = Credentials { current: Some("work".to_owned()), profiles };
        assert_eq!(url(Some("http://here:2"), None, &stored), "http://here:2");
        assert_eq!(url(None, None, &stored), "http://there:1");
        assert_eq!(url(None, Some("other"), &stored), connection::DEFAULT_URL);
        assert_eq!(url(None, None, &Credentials::default()), connection::DEFAULT_URL);
    }
}
