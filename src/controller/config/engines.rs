//! Engines that one controller offers together.

use serde::{Deserialize, Serialize};

use crate::config::{CONTAINER, Config, ENGINES, QEMU};
use hotdesk_domain::computer::isolation::{Isolation, check_offered, parse_isolation};
use hotdesk_domain::error::{Error, Result};
use hotdesk_engine::{ContainerSettings, EngineKind, EngineSettings};

/// Engines that this host offers together.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Engines {
    /// Isolations that computers may have, separated by commas: `sandbox` (gVisor), `shared` (runc), `vm` (QEMU). Empty:
    /// the one engine of `engine`, for all computers.
    pub offered: String,
    /// Isolation of computers for which nobody chose one; empty: the first of `offered`.
    pub default: String,
    /// OCI runtime of `shared`: a name on the path or a file.
    pub runc: String,
    /// OCI runtime of `sandbox`: a name on the path or a file.
    pub runsc: String,
}

impl Engines {
    /// The isolations, the default first; none when there is only the engine of `engine`.
    fn isolations(&self) -> Result<Vec<Isolation>> {
        let names = self.offered.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut isolations = names
            .map(parse_isolation)
            .collect::<Result<Vec<_>>>()
            .map_err(|error| Error::failed(format!("engines.offered: {error}")))?;
        if self.default.is_empty() {
            return Ok(isolations);
        }
        let default = parse_isolation(&self.default)
            .and_then(|default| check_offered(default, "engines.default", &isolations))
            .map_err(|error| Error::failed(format!("engines.default: {error}")))?;
        isolations.sort_by_key(|isolation| *isolation != default);
        Ok(isolations)
    }
}

impl Config {
    /// The settings of the engines: those of `[engines]`, else the one of `engine`.
    ///
    /// # Errors
    /// `Internal`, with the reason, when an isolation, the engine or the subnet is invalid, or the path of this program
    /// cannot be determined.
    pub fn engine_settings(&self) -> Result<EngineSettings> {
        let isolations = self.engines.isolations()?;
        let kinds = if isolations.is_empty() {
            vec![self.single_engine()?]
        } else {
            isolations.into_iter().map(|isolation| self.engine_of(isolation)).collect()
        };
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

    fn single_engine(&self) -> Result<EngineKind> {
        match self.engine.as_str() {
            CONTAINER => Ok(EngineKind::Container(ContainerSettings {
                runtime: self.container.runtime.clone(),
                isolation: None,
            })),
            QEMU => Ok(EngineKind::Qemu(self.qemu.clone())),
            unknown => {
                let known = ENGINES.join(" or ");
                Err(Error::failed(format!("unknown engine {unknown:?}: use {known}")))
            }
        }
    }
}

impl Default for Engines {
    fn default() -> Self {
        Self {
            offered: String::new(),
            default: String::new(),
            runc: "runc".to_owned(),
            runsc: "runsc".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_comes_first_and_mistakes_are_named() {
        use Isolation::{Sandbox, Shared, Vm};
        for (offered, default, expected) in [
            ("", "", Ok(vec![])),
            ("shared", "", Ok(vec![Shared])),
            (" shared, vm ,sandbox", "", Ok(vec![Shared, Vm, Sandbox])),
            ("shared, vm, sandbox", "vm", Ok(vec![Vm, Shared, Sandbox])),
            ("shared, runc", "", Err("engines.offered: isolation must be one of sandbox, shared, vm")),
            ("shared", "vm", Err("engines.default is vm, and this host offers shared")),
            ("", "vm", Err("engines.default is vm")),
        ] {
            let engines =
                Engines { offered: offered.to_owned(), default: default.to_owned(), ..Engines::default() };
            match (engines.isolations(), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{offered} {default}"),
                (Err(error), Err(part)) => assert!(error.message.contains(part), "{}", error.message),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn one_engine_is_configured_as_before() {
        let config = Config { engine: QEMU.to_owned(), ..Config::default() };
        let settings = config.engine_settings().unwrap();
        assert!(matches!(settings.kinds[..], [EngineKind::Qemu(_)]), "{:?}", settings.kinds);
        let engines = Engines { offered: "sandbox, vm".to_owned(), ..Engines::default() };
        let settings = Config { engines, ..config }.engine_settings().unwrap();
        assert!(
            matches!(&settings.kinds[..], [EngineKind::Container(own), EngineKind::Qemu(_)] if own.runtime == "runsc"),
            "{:?}",
            settings.kinds
        );
    }
}
