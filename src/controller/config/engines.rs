//! Engines of one controller.

use serde::{Deserialize, Serialize};

use crate::config::{Config, secret_file};
use hotdesk_domain::computer::isolation::{Isolation, parse_isolation};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{ContainerSettings, EngineKind, EngineSettings, IncusSettings};

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
    /// Incus, which runs the computers instead of this host when its `url` is set.
    pub incus: IncusSettings,
}

impl Engines {
    /// The offered isolations, the default first.
    ///
    /// # Errors
    /// `Internal`, with the name of the setting, for an unknown one.
    pub fn isolations(&self) -> Result<Vec<Isolation>> {
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
        let kinds = if self.engines.incus.is_used() {
            vec![EngineKind::Incus(self.incus_settings()?)]
        } else {
            isolations.into_iter().map(|isolation| self.engine_of(isolation)).collect()
        };
        Ok(EngineSettings { host: self.host_settings()?, kinds })
    }

    /// The settings of Incus, checked with those that exclude it.
    fn incus_settings(&self) -> Result<IncusSettings> {
        let refused = |why: &str| Err(Error::failed(format!("configuration: {why}")));
        let settings = &self.engines.incus;
        settings.check().map_err(|why| Error::failed(format!("configuration: {why}")))?;
        if !settings.key_file.as_os_str().is_empty() {
            secret_file::check_private("engines.incus.key_file", &settings.key_file)?;
        }
        let offered = self.engines.isolations()?;
        if offered.contains(&Isolation::Vm) {
            return refused(
                "engines.offered may have \"shared\" and \"sandbox\" with engines.incus: instances have no other \
                 isolation",
            );
        }
        if self.host.is_used() {
            return refused("host.socket must be empty with engines.incus, which needs no host helper");
        }
        if self.encryption.computers {
            return refused(
                "encryption.computers must be false with engines.incus: its pool holds the disks",
            );
        }
        if self.container.network && settings.network.is_empty() {
            return refused("engines.incus.network must name a bridge, or container.network must be false");
        }
        Ok(IncusSettings { offered, runsc: self.engines.runsc.clone(), ..settings.clone() })
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
            incus: IncusSettings::default(),
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
                    EngineKind::Incus(own) => own.url,
                })
                .collect()
        };
        assert_eq!(runtimes(Config::default().engine_settings().unwrap()), ["runsc", "runc"]);
        let engines = Engines { offered: "vm, sandbox".to_owned(), ..Engines::default() };
        let config = Config { engines, ..Config::default() };
        assert_eq!(runtimes(config.engine_settings().unwrap()), ["qemu-system-x86_64", "runsc"]);
        assert_eq!(runtimes(config.all_engine_settings().unwrap()), ["qemu-system-x86_64", "runsc", "runc"]);
    }

    #[test]
    fn incus_runs_all_computers_without_what_it_cannot_do() {
        let incus = IncusSettings {
            url: "/run/incus/unix.socket".to_owned(),
            network: "desk0".to_owned(),
            ..IncusSettings::default()
        };
        let engines = Engines { offered: "shared".to_owned(), incus, ..Engines::default() };
        let good = Config { engines, ..Config::default() };
        for settings in [good.engine_settings().unwrap(), good.all_engine_settings().unwrap()] {
            assert!(matches!(settings.kinds.as_slice(), [EngineKind::Incus(_)]), "{:?}", settings.kinds);
        }
        let mut both = good.clone();
        both.engines.offered = "shared, sandbox".to_owned();
        both.engines.runsc = "/opt/runsc".to_owned();
        let settings = both.engine_settings().unwrap();
        let [EngineKind::Incus(own)] = settings.kinds.as_slice() else { panic!("{:?}", settings.kinds) };
        assert_eq!(own.offered, [Isolation::Shared, Isolation::Sandbox]);
        assert_eq!(own.runsc, "/opt/runsc");
        let wrong = |change: fn(&mut Config)| {
            let mut config = good.clone();
            change(&mut config);
            config.engine_settings().unwrap_err().message
        };
        for (refused, part) in [
            (wrong(|it| it.engines.offered = "shared, vm".to_owned()), "engines.offered"),
            (wrong(|it| it.host.socket = "/run/hotdesk/host.sock".into()), "host.socket"),
            (wrong(|it| it.encryption.computers = true), "encryption.computers"),
            (wrong(|it| it.engines.incus.network = String::new()), "engines.incus.network"),
            (wrong(|it| it.engines.incus.url = "incus.example".to_owned()), "engines.incus.url"),
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
