//! A real OpenID Connect provider (npm `oidc-provider`, from `packaging/dev/deps test`), and the way of a browser
//! through it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use reqwest::header::{HeaderMap, SET_COOKIE};
use serde_json::{Value, json};

use super::capability::Capability;

/// Redirects of a browser through the provider: a first visit has three.
const MAX_REDIRECTS: usize = 10;

pub struct OidcProvider {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub issuer: String,
}

impl OidcProvider {
    /// Starts a provider. Where it is not installed, prints the reason and returns `None`.
    pub fn start() -> Option<Self> {
        let cache =
            PathBuf::from(std::env::var_os("HOTDESK_CACHE").unwrap_or_else(|| "/var/cache/hotdesk".into()));
        let (node, folder) =
            (cache.join("mcp-conformance/node_modules/node/bin/node"), cache.join("oidc-provider"));
        if !node.exists() || !folder.join("node_modules/oidc-provider").exists() {
            Capability::Oidc.skip("no OpenID Connect provider (packaging/dev/deps test)");
            return None;
        }
        let script = format!("{}/tests/node/oidc_provider.mjs", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(node);
        command.arg(script).arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Node");
        let mut answers = BufReader::new(child.stdout.take().expect("a piped output"));
        let mut issuer = String::new();
        answers.read_line(&mut issuer).expect("an issuer");
        let issuer = issuer.trim().to_owned();
        assert!(issuer.starts_with("http://127.0.0.1:"), "{issuer:?}");
        Some(Self { commands: child.stdin.take(), child, answers, issuer })
    }

    fn command(&mut self, command: &Value) {
        let commands = self.commands.as_mut().expect("a running provider");
        writeln!(commands, "{command}").and_then(|()| commands.flush()).expect("an open pipe");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        assert_eq!(line.trim(), "done", "{command}");
    }

    /// Makes the provider's clients; once, before the first sign-in.
    pub fn register(&mut self, clients: &Value) {
        self.command(&json!({ "clients": clients }));
    }

    /// Says who signs in from now on.
    pub fn sign_in_as(&mut self, sub: &str, email: &str, verified: bool) {
        self.command(&json!({"person": {"sub": sub, "email": email, "email_verified": verified}}));
    }

    /// Follows a redirect to the provider as a new browser does, until the provider leads away from itself. Returns
    /// that address.
    pub async fn visit(&self, url: &str) -> String {
        let policy = reqwest::redirect::Policy::none();
        let client = super::client_builder().redirect(policy).build().expect("a client");
        let mut cookies = BTreeMap::new();
        let mut url = url.to_owned();
        for _ in 0..MAX_REDIRECTS {
            let sent: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let answer = client.get(&url).header("cookie", sent.join("; ")).send().await.expect("an answer");
            store_cookies(&mut cookies, answer.headers());
            let status = answer.status();
            let location = answer.headers().get("location").map(|to| to.to_str().expect("text").to_owned());
            let Some(location) = location else {
                panic!("{status} at {url}: {}", answer.text().await.expect("text"));
            };
            url = if location.starts_with('/') { format!("{}{location}", self.issuer) } else { location };
            if !url.starts_with(&self.issuer) {
                return url;
            }
        }
        panic!("no end of redirects at {url}");
    }
}

/// Adds the cookies of an answer. Their paths do not matter: names are unique.
fn store_cookies(cookies: &mut BTreeMap<String, String>, headers: &HeaderMap) {
    for cookie in headers.get_all(SET_COOKIE) {
        let pair = cookie.to_str().expect("text").split(';').next().expect("a pair");
        let (name, value) = pair.split_once('=').expect("a pair");
        cookies.insert(name.to_owned(), value.to_owned());
    }
}

impl Drop for OidcProvider {
    fn drop(&mut self) {
        // The script ends at the end of its input.
        drop(self.commands.take());
        let _status = self.child.wait();
    }
}
