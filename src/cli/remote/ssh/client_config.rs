//! Configuration of OpenSSH's client for computers (ssh_config(5)).

use std::path::{Path, PathBuf};

use super::DEFAULT_USER;
use crate::client::Session;
use crate::failure::Outcome;

/// End of the host names that stand for computers in ~/.ssh/config.
pub const HOST_SUFFIX: &str = ".hotdesk";

/// How OpenSSH's client calls this program.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    program: PathBuf,
    /// `--url` and `--profile` of this call.
    flags: Vec<String>,
}

impl ClientConfig {
    /// Calls of this program with the server of this call.
    ///
    /// # Errors
    /// When the path of this program is unknown.
    pub fn of_this_program(session: &Session) -> Outcome<Self> {
        let program =
            std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        Ok(Self { program, flags: session.flags.clone() })
    }

    /// Options for a connection to the computer with an id.
    pub fn options(&self, user: &str, id: &str) -> Vec<(&'static str, String)> {
        vec![
            ("User", user.to_owned()),
            ("ProxyCommand", self.call("ssh-proxy", id, shell_word)),
            ("KnownHostsCommand", self.call("ssh-known-hosts", id, config_word)),
            // The keys come from the server, over a connection that it has authenticated: no question at the
            // first connection, and none when another computer gets the name of an earlier one.
            ("StrictHostKeyChecking", "yes".to_owned()),
            ("UserKnownHostsFile", "/dev/null".to_owned()),
            ("GlobalKnownHostsFile", "/dev/null".to_owned()),
            ("CheckHostIP", "no".to_owned()),
            ("UpdateHostKeys", "no".to_owned()),
        ]
    }

    /// A block of ~/.ssh/config for hosts that match `pattern`, with the id of the only one.
    pub fn block(&self, pattern: &str, id: Option<&str>) -> String {
        let options = self.options(DEFAULT_USER, id.unwrap_or("%h"));
        let lines: Vec<String> =
            options.into_iter().map(|(name, value)| format!("    {name} {value}\n")).collect();
        format!("Host {pattern}\n{}", lines.concat())
    }

    /// A command line whose words are quoted by `quote`.
    fn call(&self, command: &str, host: &str, quote: fn(&str) -> String) -> String {
        let program = Path::new(&self.program).to_string_lossy();
        let words =
            [program.as_ref()].into_iter().chain(self.flags.iter().map(String::as_str)).chain([command]);
        let words: Vec<String> = words.map(|word| quote(&word.replace('%', "%%"))).collect();
        format!("{} {host}", words.join(" "))
    }
}

fn is_plain(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/.:_-+@=%,".contains(&byte)) && !word.is_empty()
}

/// A word of a shell's command line.
fn shell_word(word: &str) -> String {
    if is_plain(word) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// A word of a command that OpenSSH splits itself.
fn config_word(word: &str) -> String {
    if is_plain(word) {
        return word.to_owned();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(program: &str, flags: &[&str]) -> ClientConfig {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        ClientConfig { program: PathBuf::from(program), flags }
    }

    #[test]
    fn a_block_calls_this_program_with_the_server_of_the_call() {
        let block = config("/usr/bin/hotdesk", &["--profile", "work"]).block("*.hotdesk", None);
        let lines: Vec<&str> = block.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "Host *.hotdesk",
                "    User root",
                "    ProxyCommand /usr/bin/hotdesk --profile work ssh-proxy %h",
                "    KnownHostsCommand /usr/bin/hotdesk --profile work ssh-known-hosts %h",
            ]
        );
        assert!(lines.contains(&"    StrictHostKeyChecking yes"));
        let block = config("/usr/bin/hotdesk", &[]).block("c1.hotdesk", Some("7d7c6434"));
        assert!(block.contains("    ProxyCommand /usr/bin/hotdesk ssh-proxy 7d7c6434\n"), "{block}");
    }

    #[test]
    fn words_with_special_characters_are_quoted() {
        let options = config("/my tools/50%/it's", &["--url", "http://h/?a\"b"]).options("root", "id");
        let value = |name: &str| &options.iter().find(|(option, _)| *option == name).unwrap().1;
        assert_eq!(value("ProxyCommand"), "'/my tools/50%%/it'\\''s' --url 'http://h/?a\"b' ssh-proxy id");
        assert_eq!(
            value("KnownHostsCommand"),
            "\"/my tools/50%%/it's\" --url \"http://h/?a\\\"b\" ssh-known-hosts id"
        );
    }
}
