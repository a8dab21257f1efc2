//! Configuration of an agent, filled by the command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::display::ScreenSession;
use hotdesk_base::step_error::StepError;
use hotdesk_domain::desktop::resolution::Resolution;
use hotdesk_http::serve::Listen;

/// Number of the boot screen's X display in a computer (docs/api/screens.md).
pub const BOOT_DISPLAY: u16 = 99;

/// X server of the boot screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Display {
    /// X server that the agent starts, with this display number.
    Own(u16),
    /// X server that runs already, with this display number.
    Attach(u16),
    /// No screen: an agent for commands and files only.
    None,
}

impl FromStr for Display {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let wrong = || StepError::new(format!("{text:?} is not own, own:NUMBER, :NUMBER or none"));
        // No host part, on purpose: a screen on another host cannot share memory.
        match text.split_once(':') {
            None if text == "own" => Ok(Self::Own(BOOT_DISPLAY)),
            None if text == "none" => Ok(Self::None),
            Some(("own", number)) => number.parse().map(Self::Own).map_err(|_| wrong()),
            Some(("", number)) => number.parse().map(Self::Attach).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Address or socket to listen on.
    pub listen: Listen,
    /// Whether the listen address may be reachable from other hosts.
    pub allow_remote: bool,
    /// File with the token; absent: the agent generates one in the runtime folder.
    pub token_file: Option<PathBuf>,
    /// Size of a boot screen that the agent starts itself.
    pub resolution: Resolution,
    /// The boot screen.
    pub display: Display,
    /// Folder (mode 0700) of the token, the X cookies, the sockets and the request journal.
    pub runtime_dir: PathBuf,
    /// Desktop session to start on an own screen.
    pub session: ScreenSession,
    /// Folder in which the session writes its environment.
    pub session_dir: PathBuf,
    /// Home folder of the computer's user: `~`, the working folder of commands, and the parent of `Desktop`.
    pub home: PathBuf,
    /// Idle time after which a Python session ends.
    pub session_idle: Duration,
}

impl AgentConfig {
    /// Desktop session to start; none on an X server that the agent did not start.
    pub fn session(&self) -> ScreenSession {
        match self.display {
            Display::Attach(_) | Display::None => ScreenSession::None,
            Display::Own(_) => self.session.clone(),
        }
    }

    /// Checks combinations of fields.
    ///
    /// # Errors
    /// When the agent would be reachable from other hosts without `allow_remote` (T2, docs/security.md).
    pub fn check(&self) -> Result<(), StepError> {
        match &self.listen {
            Listen::Tcp(address) if !address.ip().is_loopback() && !self.allow_remote => {
                Err(StepError::new(format!(
                    "{address} can be reached from other hosts, and the token gives root access: \
                     listen on 127.0.0.1 or a unix socket, or pass --allow-remote"
                )))
            }
            Listen::Tcp(_) | Listen::Unix(_) | Listen::Inherited(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_are_own_none_or_a_local_number() {
        assert_eq!("own".parse().ok(), Some(Display::Own(99)));
        assert_eq!("own:7".parse().ok(), Some(Display::Own(7)));
        assert_eq!("none".parse().ok(), Some(Display::None));
        assert_eq!(":99".parse().ok(), Some(Display::Attach(99)));
        for bad in ["", "99", ":", ":x", "host:1", ":1.0", ":-1", "Own", "own:", "none:1", ":65536"] {
            assert!(bad.parse::<Display>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn other_addresses_than_loopback_need_allow_remote() {
        let config = |listen: &str, allow_remote| AgentConfig {
            listen: listen.parse().unwrap(),
            allow_remote,
            token_file: None,
            resolution: Resolution::default(),
            display: Display::None,
            runtime_dir: PathBuf::new(),
            session: ScreenSession::None,
            session_dir: PathBuf::new(),
            home: PathBuf::new(),
            session_idle: Duration::ZERO,
        };
        for good in ["127.0.0.1:0", "[::1]:80", "127.8.8.8:1", "unix:/x", "fd:3"] {
            assert!(config(good, false).check().is_ok(), "{good}");
        }
        for bad in ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "[::ffff:127.0.0.1]:1"] {
            assert!(config(bad, false).check().is_err(), "{bad}");
            assert!(config(bad, true).check().is_ok(), "{bad}");
        }
    }
}
