//! Loading of the configuration: defaults, file, variables and flags, in this order.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use config::{Environment, File, FileFormat};

use super::Config;
use hotdesk_domain::error::{Error, Result};

/// Settings of the command line; `None` leaves the value of the file and the environment.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--isolations`.
    pub isolations: Option<String>,
    /// `--image`.
    pub image: Option<PathBuf>,
    /// `--stream-allow-private`: can allow, but not forbid.
    pub stream_allow_private: bool,
}

impl Config {
    /// Reads the configuration: defaults, then the file, then `HOTDESK_*` variables (with `__` between a
    /// section and its field, such as `HOTDESK_LIMITS__MAX_COMPUTERS`), then flags. Variables of the client
    /// and of the build are ignored.
    ///
    /// # Errors
    /// `Internal` with a sentence that names the file, the unknown field or the invalid value.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self> {
        let own = std::env::vars().filter(|(name, _)| !CLIENT_VARIABLES.contains(&name.as_str())).collect();
        let mut builder = config::Config::builder();
        if let Some(file) = file {
            builder = builder.add_source(File::from(file.to_owned()).format(FileFormat::Toml));
        }
        let environment = Environment::with_prefix("HOTDESK").separator("__").prefix_separator("_");
        let merged = builder.add_source(environment.try_parsing(true).source(Some(own))).build();
        let mut config: Self = merged
            .and_then(config::Config::try_deserialize)
            .map_err(|error| Error::failed(format!("configuration: {error}")))?;
        if let Some(data_dir) = &flags.data_dir {
            config.data_dir.clone_from(data_dir);
        }
        if let Some(listen) = flags.listen {
            config.listen = listen;
        }
        if let Some(isolations) = &flags.isolations {
            config.engines.offered.clone_from(isolations);
        }
        if let Some(image) = &flags.image {
            config.container.image.clone_from(image);
        }
        config.streaming.allow_private |= flags.stream_allow_private;
        config.public_url = config.public_url.trim_end_matches('/').to_owned();
        Ok(config)
    }
}

/// Variables of the command-line client, the makefile and the image build, which have the same prefix.
const CLIENT_VARIABLES: [&str; 10] = [
    "HOTDESK_API_KEY",
    "HOTDESK_CACHE",
    "HOTDESK_CONFIG",
    "HOTDESK_IMAGE",
    "HOTDESK_IMAGE_DIR",
    "HOTDESK_PROFILE",
    "HOTDESK_PYTHON",
    "HOTDESK_REQUIRE",
    "HOTDESK_SKIPS",
    "HOTDESK_URL",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_defaults_and_flags_change_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hotdesk.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:1\"\n[limits]\nmax_computers = 3\n").unwrap();
        let flags = Flags { listen: Some("127.0.0.1:2".parse().unwrap()), ..Flags::default() };
        assert!(!Config::load(Some(&file), &flags).unwrap().streaming.allow_private);
        let flags = Flags { stream_allow_private: true, ..flags };
        assert!(Config::load(Some(&file), &flags).unwrap().streaming.allow_private);
        let config = Config::load(Some(&file), &flags).unwrap();
        assert_eq!(
            (config.listen.port(), config.limits.max_computers, config.limits.max_disk_gb),
            (2, 3, 300)
        );
        std::fs::write(&file, "lisssten = \"127.0.0.1:1\"\n").unwrap();
        assert!(Config::load(Some(&file), &Flags::default()).unwrap_err().message.contains("lisssten"));
        assert!(Config::load(Some(Path::new("/nowhere.toml")), &Flags::default()).is_err());
    }
}
