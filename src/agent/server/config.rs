//! What can be chosen when an agent is started? Plain data; the command line fills it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::display::Session;
use hotdesk_domain::resolution::Resolution;
use hotdesk_http::serve::Listen;

/// Number of the boot screen's X display in a computer (wire.md 6).
pub const BOOT_DISPLAY: u16 = 99;

/// Which X server the boot screen is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Display {
    /// One that the agent starts itself, with this number.
    Own(u16),
    /// One that runs already, with this number.
    Attach(u16),
    /// None: an agent for commands and files only.
    None,
}

impl FromStr for Display {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not own, own:NUMBER, :NUMBER or none");
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

/// How an agent is to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens.
    pub listen: Listen,
    /// Whether it may listen on an address that other hosts reach.
    pub allow_remote: bool,
    /// File with the token; one is made in the run-time folder when absent.
    pub token_file: Option<PathBuf>,
    /// Size of the boot screen, where the agent starts it itself.
    pub resolution: Resolution,
    /// The boot screen.
    pub display: Display,
    /// Folder for what lasts as long as the agent: token, cookies, sockets. Mode 0700.
    pub runtime_dir: PathBuf,
    /// What runs on a screen of our own.
    pub session: Session,
    /// Where the session tells its environment.
    pub session_dir: PathBuf,
    /// Home folder of the computer's user: where commands start, `~`, and the folder that holds `Desktop`.
    pub home: PathBuf,
    /// A Python session without a call for this long is ended.
    pub session_idle: Duration,
}

impl Config {
    /// What runs on a screen. Where somebody else started the X server, the desktop on it is theirs as well.
    pub fn session(&self) -> Session {
        match self.display {
            Display::Attach(_) | Display::None => Session::None,
            Display::Own(_) => self.session.clone(),
        }
    }

    /// Checks what the fields say together.
    ///
    /// # Errors
    /// When the agent would be reachable from other hosts without that being asked for (threats.md T2).
    pub fn check(&self) -> Result<(), String> {
        match &self.listen {
            Listen::Tcp(address) if !address.ip().is_loopback() && !self.allow_remote => Err(format!(
                "{address} can be reached from other hosts, and whoever has the token is root here: \
                 listen on 127.0.0.1 or a unix socket, or say --allow-remote"
            )),
            Listen::Tcp(_) | Listen::Unix(_) | Listen::Inherited(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_are_own_none_or_a_local_number() {
        assert_eq!("own".parse(), Ok(Display::Own(99)));
        assert_eq!("own:7".parse(), Ok(Display::Own(7)));
        assert_eq!("none".parse(), Ok(Display::None));
        assert_eq!(":99".parse(), Ok(Display::Attach(99)));
        for bad in ["", "99", ":", ":x", "host:1", ":1.0", ":-1", "Own", "own:", "none:1", ":65536"] {
            assert!(bad.parse::<Display>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_loopback_is_listened_on_unless_asked() {
        let config = |listen: &str, allow_remote| Config {
            listen: listen.parse().unwrap(),
            allow_remote,
            token_file: None,
            resolution: Resolution::default(),
            display: Display::None,
            runtime_dir: PathBuf::new(),
            session: Session::None,
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
