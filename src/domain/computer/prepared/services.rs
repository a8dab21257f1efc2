//! Rules for services of a template that start before a launch: its computers continue them from the memory
//! of a boot snapshot (docs/templates.md#prestart).

use std::time::Duration;

use crate::computer::isolation::Isolation;

/// Longest time until services that start before a launch are up and healthy: that of the check of a build
/// (docs/templates.md#build-and-launch).
pub const PRESTART_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest delay of a program of the desktop that starts before a launch: the rest of [`PRESTART_TIMEOUT`] is
/// for its start.
pub const MAX_PRESTART_DELAY: Duration = Duration::from_secs(100);
/// Most bytes of a boot snapshot in which services of a template run. It counts for no account, and that of a
/// desktop alone takes 100 to 400 MB (docs/lifecycle.md#boot-snapshots).
pub const MAX_PRESTARTED_BYTES: u64 = 2 << 30;
/// Seconds that a service must run to be up. The supervisor starts one that ended again after a second.
pub const UP_SECONDS: u64 = 2;

/// When the services and programs of the desktop with `prestart` start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServiceStart {
    /// At each launch, after the hooks of the boot.
    #[default]
    AtLaunch,
    /// Once for a boot snapshot, from which all launches continue them.
    BeforeLaunch,
}

/// What decides when services start: facts about a template and a launch of it.
#[derive(Clone, Copy, Debug)]
pub struct LaunchFacts {
    /// The kernel behind the computer's programs.
    pub isolation: Isolation,
    /// Whether an application with services or programs of the desktop has `prestart`.
    pub prestart: bool,
    /// Whether the template names secrets, which services may read at their start.
    pub secrets: bool,
    /// Whether it has hooks that run before the services start.
    pub boot_hooks: bool,
    /// Whether it has files that each boot writes before the services start.
    pub runtime_files: bool,
    /// Whether the computer may reach only some destinations: services would start without the policy.
    pub egress_policy: bool,
    /// The longest delay of a program of the desktop with `prestart`; zero without one.
    pub delay: Duration,
}

/// Why services cannot start before a launch though their template asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrestartObstacle {
    /// Another isolation. runc saves no memory. In a virtual machine programs start fast, and rely on their
    /// kernel to tell them of a copy of their memory, as random generators do by `MADV_WIPEONFORK`
    /// (madvise(2)); gVisor refuses such promises.
    Isolation,
    /// Secrets.
    Secrets,
    /// Hooks of the boot.
    BootHooks,
    /// Files of the boot.
    RuntimeFiles,
    /// An egress policy.
    EgressPolicy,
    /// A delay above [`MAX_PRESTART_DELAY`].
    LongDelay,
}

impl PrestartObstacle {
    /// Returns the reason for people, as a part of a sentence.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Isolation => "its computers are not of the isolation sandbox",
            Self::Secrets => "the template has secrets",
            Self::BootHooks => "the template has on_first_boot or on_every_boot",
            Self::RuntimeFiles => "the template has files of the moment runtime",
            Self::EgressPolicy => "the computer has an egress policy",
            Self::LongDelay => "a program of autostart has a delay of more than 100 s",
        }
    }
}

/// Decides when the services with `prestart` start: before the launch only if they would see the same at each
/// launch.
///
/// # Errors
/// The first obstacle of a template that asks for an earlier start.
pub fn service_start(facts: &LaunchFacts) -> Result<ServiceStart, PrestartObstacle> {
    let LaunchFacts { isolation, prestart, secrets, boot_hooks, runtime_files, egress_policy, delay } =
        *facts;
    let obstacles = [
        (isolation != Isolation::Sandbox, PrestartObstacle::Isolation),
        (secrets, PrestartObstacle::Secrets),
        (boot_hooks, PrestartObstacle::BootHooks),
        (runtime_files, PrestartObstacle::RuntimeFiles),
        (egress_policy, PrestartObstacle::EgressPolicy),
        (delay > MAX_PRESTART_DELAY, PrestartObstacle::LongDelay),
    ];
    if !prestart {
        return Ok(ServiceStart::AtLaunch);
    }
    match obstacles.into_iter().find(|(applies, _)| *applies) {
        Some((_, obstacle)) => Err(obstacle),
        None => Ok(ServiceStart::BeforeLaunch),
    }
}

/// The present run of a service under its supervisor, or its last one.
#[derive(Clone, Copy, Debug)]
pub struct ServiceRun<'a> {
    /// Seconds since its start while it runs.
    pub running_seconds: Option<u64>,
    /// Exit code of its last run.
    pub exit_code: Option<i32>,
    /// Number of the signal that ended its last run.
    pub signal: Option<i32>,
    /// Its restart policy: `always`, `on-failure` or `no`.
    pub restart: &'a str,
}

/// How far a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceProgress {
    /// It is up.
    Up,
    /// It is not up yet, and why.
    NotYet(String),
    /// It will not be up, and why.
    Never(String),
}

impl ServiceRun<'_> {
    /// Returns how far the service is. One that need not start again is up when it ended with success.
    pub fn progress(&self) -> ServiceProgress {
        if let Some(seconds) = self.running_seconds {
            return match seconds >= UP_SECONDS {
                true => ServiceProgress::Up,
                false => ServiceProgress::NotYet("it keeps ending and starting".to_owned()),
            };
        }
        let why = match (self.exit_code, self.signal) {
            (Some(code), _) => format!("it ended with exit code {code}"),
            (None, Some(signal)) => format!("the signal {signal} ended it"),
            (None, None) => return ServiceProgress::NotYet("it has not started".to_owned()),
        };
        match (self.restart, self.exit_code) {
            ("no" | "on-failure", Some(0)) => ServiceProgress::Up,
            ("no", _) => ServiceProgress::Never(why),
            _ => ServiceProgress::NotYet(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_start_before_a_launch_only_where_nothing_of_it_matters_to_them() {
        let free = LaunchFacts {
            isolation: Isolation::Sandbox,
            prestart: true,
            secrets: false,
            boot_hooks: false,
            runtime_files: false,
            egress_policy: false,
            delay: Duration::ZERO,
        };
        let cases = [
            (free, Ok(ServiceStart::BeforeLaunch)),
            (LaunchFacts { prestart: false, ..free }, Ok(ServiceStart::AtLaunch)),
            (LaunchFacts { isolation: Isolation::Vm, ..free }, Err(PrestartObstacle::Isolation)),
            (LaunchFacts { isolation: Isolation::Shared, ..free }, Err(PrestartObstacle::Isolation)),
            (LaunchFacts { secrets: true, ..free }, Err(PrestartObstacle::Secrets)),
            (LaunchFacts { boot_hooks: true, ..free }, Err(PrestartObstacle::BootHooks)),
            (LaunchFacts { runtime_files: true, ..free }, Err(PrestartObstacle::RuntimeFiles)),
            (LaunchFacts { egress_policy: true, ..free }, Err(PrestartObstacle::EgressPolicy)),
            (LaunchFacts { delay: MAX_PRESTART_DELAY, ..free }, Ok(ServiceStart::BeforeLaunch)),
            (LaunchFacts { delay: Duration::from_secs(101), ..free }, Err(PrestartObstacle::LongDelay)),
            // Who does not ask for it has no obstacle.
            (LaunchFacts { prestart: false, secrets: true, ..free }, Ok(ServiceStart::AtLaunch)),
            (LaunchFacts { secrets: true, egress_policy: true, ..free }, Err(PrestartObstacle::Secrets)),
        ];
        for (facts, expected) in cases {
            assert_eq!(service_start(&facts), expected, "{facts:?}");
        }
        assert_eq!(ServiceStart::default(), ServiceStart::AtLaunch);
    }

    #[test]
    fn a_service_is_up_when_it_runs_for_a_while_or_has_done_its_work() {
        let not_yet = |why: &str| ServiceProgress::NotYet(why.to_owned());
        let never = |why: &str| ServiceProgress::Never(why.to_owned());
        for (restart, running_seconds, exit_code, signal, expected) in [
            ("always", Some(2), None, None, ServiceProgress::Up),
            ("always", Some(1), Some(1), None, not_yet("it keeps ending and starting")),
            ("always", None, Some(0), None, not_yet("it ended with exit code 0")),
            ("always", None, None, None, not_yet("it has not started")),
            ("on-failure", None, Some(0), None, ServiceProgress::Up),
            ("on-failure", None, Some(1), None, not_yet("it ended with exit code 1")),
            ("no", None, Some(0), None, ServiceProgress::Up),
            ("no", None, Some(3), None, never("it ended with exit code 3")),
            ("no", None, None, Some(9), never("the signal 9 ended it")),
        ] {
            let state = ServiceRun { running_seconds, exit_code, signal, restart };
            assert_eq!(state.progress(), expected, "{state:?}");
        }
    }
}
