//! Engines of one controller.

use serde::{Deserialize, Serialize};

use crate::config::Config;
use hotdesk_domain::computer::isolation::{Isolation, parse_isolation};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{ContainerSettings, EngineKind, EngineSettings};

/// Engines of this host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Engines {
    /// Isolations that computers may have, separated by commas: `sandbox` (gVisor), `shared` (runc), `vm` (QEMU). The first
    /// is that of computers for which nobody chose one.
    pub offered: String,
    /// OCI runtime of `shared`: a name on the path or a file.
    pub runc: String,
    /// OCI runtime of `sandbox`: a name on the path or a file.
    pub runsc: String,
}

impl Engines {
    /// The offered isolations, the default first.
    fn isolations(&self) -> Result<Vec<Isolation>> {
        let names = self.offered.split(',').map(str::trim);
        names
            .map(parse_isolation)
            .collect::<Result<_>>()
            .map_err(|error| Error::failed(format!("engines.offered: {error}")))
    }
}

impl Config {
    /// The settings of the engines of `[engines]`, the default first.
    ///
    /// # Errors
    /// `Internal`, with the reason, when an isolation or the subnet is invalid, or the path of this program cannot be
    /// determined.
    pub fn engine_settings(&self) -> Result<EngineSettings> {
        self.settings_of(self.engines.isolations()?)
    }

    /// [`Self::engine_settings`] with the engines of all other isolations: for the removal of machines, whatever the
    /// configuration was when they were made.
    ///
    /// # Errors
    /// Those of [`Self::engine_settings`].
    pub fn all_engine_settings(&self) -> Result<EngineSettings> {
        let mut isolations = self.engines.isolations()?;
        let others: Vec<_> =
            Isolation::ALL.into_iter().filter(|isolation| !isolations.contains(isolation)).collect();
        isolations.extend(others);
        self.settings_of(isolations)
    }

    fn settings_of(&self, isolations: Vec<Isolation>) -> Result<EngineSettings> {
        let kinds = isolations.into_iter().map(|isolation| self.engine_of(isolation)).collect();
        Ok(EngineSettings { host: self.host_settings()?, kinds })
    }

    fn engine_of(&self, isolation: Isolation) -> EngineKind {
        let container = |runtime: &str| {
            EngineKind::Container(ContainerSettings {
                runtime: runtime.to_owned(),
                isolation: Some(isolation),
            })
        };
        match isolation {
            Isolation::Sandbox => container(&self.engines.runsc),
            Isolation::Shared => container(&self.engines.runc),
            Isolation::Vm => EngineKind::Qemu(self.qemu.clone()),
        }
    }
}

impl Default for Engines {
    fn default() -> Self {
        Self {
            // The first needs no trust in the programs of a computer, and keeps memory. The second is for programs that
            // need the speed of the host's system calls.
            offered: [Isolation::Sandbox, Isolation::Shared].map(Isolation::name).join(", "),
            runc: "runc".to_owned(),
            runsc: "runsc".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_the_default_and_mistakes_are_named() {
        use Isolation::{Sandbox, Shared, Vm};
        let unknown = "engines.offered: isolation must be one of sandbox, shared, vm";
        for (offered, expected) in [
            ("shared", Ok(vec![Shared])),
            (" shared, vm ,sandbox", Ok(vec![Shared, Vm, Sandbox])),
            ("", Err(unknown)),
            ("shared, runc", Err(unknown)),
        ] {
            let engines = Engines { offered: offered.to_owned(), ..Engines::default() };
            match (engines.isolations(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{offered}"),
                (Err(error), Err(part)) => assert!(error.message.contains(part), "{}", error.message),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn each_isolation_has_its_engine() {
        let runtimes = |settings: EngineSettings| -> Vec<String> {
            settings
                .kinds
                .into_iter()
                .map(|kind| match kind {
                    EngineKind::Container(own) => own.runtime,
                    EngineKind::Qemu(own) => own.program,
                })
                .collect()
        };
        assert_eq!(runtimes(Config::default().engine_settings().unwrap()), ["runsc", "runc"]);
        let engines = Engines { offered: "vm, sandbox".to_owned(), ..Engines::default() };
        let config = Config { engines, ..Config::default() };
        assert_eq!(runtimes(config.engine_settings().unwrap()), ["qemu-system-x86_64", "runsc"]);
        assert_eq!(runtimes(config.all_engine_settings().unwrap()), ["qemu-system-x86_64", "runsc", "runc"]);
    }
}
