//! Configuration of the SSH server of one connection (sshd_config(5)).

use std::path::Path;

/// What differs between connections.
#[derive(Clone, Copy, Debug)]
pub struct SshdSettings<'a> {
    /// File of the computer's private host key.
    pub host_key: &'a Path,
    /// File of the keys that may sign in.
    pub authorized_keys: &'a Path,
    /// The only user that may sign in.
    pub user: &'a str,
    /// Environment variables of sessions.
    pub environment: &'a [(String, String)],
}

/// Settings of every connection. Keys are the only way in. `UsePAM no`: the account needs no password and no PAM
/// modules, which containers restrict. Forwarding is on: editors and developers use it, and the person can run any
/// program in the computer anyway.
const COMMON: &str = "\
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
AllowTcpForwarding yes
AllowStreamLocalForwarding yes
AllowAgentForwarding yes
GatewayPorts no
X11Forwarding no
PermitTunnel no
PermitUserEnvironment no
AcceptEnv COLORTERM NO_COLOR GIT_PROTOCOL
PrintMotd no
PidFile none
LoginGraceTime 60
ClientAliveInterval 0
Subsystem sftp internal-sftp
LogLevel ERROR
";

/// Returns the text of the configuration file.
pub fn text(settings: SshdSettings<'_>) -> String {
    let SshdSettings { host_key, authorized_keys, user, environment } = settings;
    // A line break cannot be quoted.
    let variables = environment.iter().filter(|(_, value)| !value.contains(['\n', '\r', '\0']));
    let variables: Vec<String> = variables.map(|(name, value)| quoted(&format!("{name}={value}"))).collect();
    format!(
        "HostKey {}\nAuthorizedKeysFile {}\nAllowUsers {}\n{COMMON}SetEnv {}\n",
        quoted(&host_key.to_string_lossy()),
        quoted(&authorized_keys.to_string_lossy()),
        quoted(user),
        variables.join(" ")
    )
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_one_word() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let environment =
            [pair("DISPLAY", ":1"), pair("A", "b c # \"d\" \\"), pair("TWO", "lines\nPermitTunnel yes")];
        let text = text(SshdSettings {
            host_key: Path::new("/etc/ssh/key"),
            authorized_keys: Path::new("/run/a b/keys"),
            user: "root",
            environment: &environment,
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            ["HostKey \"/etc/ssh/key\"", "AuthorizedKeysFile \"/run/a b/keys\"", "AllowUsers \"root\""]
        );
        assert_eq!(lines.last(), Some(&"SetEnv \"DISPLAY=:1\" \"A=b c # \\\"d\\\" \\\\\""));
        assert!(lines.contains(&"PasswordAuthentication no") && !text.contains("PermitTunnel yes"));
    }
}
