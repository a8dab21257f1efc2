//! Downloads of apt, pip and npm in the computer of a build: those of the account's earlier builds come before the steps, and new
//! ones are kept after them.
//!
//! ```text
//!   cache of the account --PUT /files/archive--> FOLDER/{apt,pip,npm}     mark the time, run the steps
//!                        <--GET /files/archive-- FOLDER/new/{apt,pip,npm}  links to what is newer than the mark
//! ```
//! The folder is below `/var/tmp`, so no layer has it. Without the cache a build only takes longer: its failures are logged.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use tokio_util::io::ReaderStream;

use super::super::build_log::{BuildLog, Level, Phase};
use super::run;
use crate::data_dir::disk;
use crate::data_dir::downloads::{self, DownloadCaches};
use hotdesk_base::ids::AccountId;
use hotdesk_domain::computer::template::build::{BuildStep, StepKind};
use hotdesk_domain::error::{Error, Kind, Result};
use hotdesk_domain::plural::plural;
use hotdesk_guest::Guest;
use hotdesk_wire::files::guest_file::{ArchiveQuery, UnpackQuery};

/// The folder of the downloads in a computer.
const FOLDER: &str = "/var/tmp/hotdesk-downloads";
/// For an archive of the largest size into a computer on a slow disk.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(300);
/// Part of a computer's disk that earlier downloads may take.
const DISK_PART: u64 = 8;
/// The name of these steps in the log.
const FIELD: &str = "downloads";

/// Makes the folders and the settings of apt, and marks the time.
const BEGIN: &str = "cd /var/tmp/hotdesk-downloads 2>/dev/null || { mkdir -m 755 /var/tmp/hotdesk-downloads; cd /var/tmp/hotdesk-downloads; }\n\
    mkdir -p apt/partial pip npm\n\
    cat >apt.conf <<'END'\n\
    Dir::Cache::archives \"/var/tmp/hotdesk-downloads/apt\";\n\
    APT::Keep-Downloaded-Packages \"true\";\n\
    Binary::apt::APT::Keep-Downloaded-Packages \"true\";\n\
    END\n\
    touch mark\n";
/// Links the new files in a folder for each tool that has some.
const COLLECT: &str = "cd /var/tmp/hotdesk-downloads\n\
    rm -rf new\n\
    mkdir -p new/apt new/pip new/npm npm/_cacache\n\
    find apt -maxdepth 1 -type f -name '*.deb' -cnewer mark -exec cp --parents --link -t new/apt -- {} +\n\
    find pip -type f -cnewer mark -exec cp --parents --link -t new/pip -- {} +\n\
    find npm/_cacache -path npm/_cacache/tmp -prune -o -type f -cnewer mark -exec cp --parents --link -t new/npm -- {} +\n\
    rmdir --ignore-fail-on-non-empty new/*\n";
const CLEAN: &str = "rm -rf /var/tmp/hotdesk-downloads\n";

/// A package manager whose downloads are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Apt,
    Pip,
    Npm,
}

impl Tool {
    const ALL: [Self; 3] = [Self::Apt, Self::Pip, Self::Npm];

    /// The name of its archives, and of its folder in a computer.
    fn name(self) -> &'static str {
        match self {
            Self::Apt => "apt",
            Self::Pip => "pip",
            Self::Npm => "npm",
        }
    }

    /// Words of a script that uses it.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Apt => &["apt"],
            Self::Pip => &["pip", "pip3", "pipx"],
            Self::Npm => &["npm", "npx"],
        }
    }

    /// Whether a script seems to use it. A wrong guess costs a transfer, or a download.
    fn is_used_by(self, script: &str) -> bool {
        script
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|word| self.words().contains(&word))
    }
}

/// Variables that make the package managers use the folder. Without it, pip keeps no downloads: they would be in the layer.
pub(in super::super) fn environment(downloads: Option<&Downloads<'_>>) -> BTreeMap<String, String> {
    let variables = [("APT_CONFIG", "apt.conf"), ("PIP_CACHE_DIR", "pip"), ("npm_config_cache", "npm")];
    match downloads {
        Some(_) => variables.map(|(name, path)| (name.to_owned(), format!("{FOLDER}/{path}"))).into(),
        None => [("PIP_NO_CACHE_DIR".to_owned(), "1".to_owned())].into(),
    }
}

/// The downloads of one computer of a build.
pub(in super::super) struct Downloads<'a> {
    caches: &'a DownloadCaches,
    account: AccountId,
    guest: &'a Guest,
    log: &'a BuildLog,
    tools: Vec<Tool>,
}

impl<'a> Downloads<'a> {
    /// Prepares the computer for its steps, whose disk has `disk_bytes`. Returns `None` when the steps use no package manager, or
    /// the computer cannot be prepared.
    pub(in super::super) async fn begin(
        caches: &'a DownloadCaches,
        account: AccountId,
        guest: &'a Guest,
        log: &'a BuildLog,
        (steps, disk_bytes): (&[BuildStep], u64),
    ) -> Option<Self> {
        let is_used = |tool: &Tool| steps.iter().any(|step| tool.is_used_by(&step.script));
        let tools: Vec<Tool> = Tool::ALL.into_iter().filter(is_used).collect();
        if tools.is_empty() {
            return None;
        }
        let this = Self { caches, account, guest, log, tools };
        let count = this.fill(disk_bytes / DISK_PART).await;
        if count > 0 {
            this.note(&format!("{} with downloads of earlier builds", plural(count, "archive")));
        }
        match this.script(BEGIN).await {
            Ok(()) => Some(this),
            Err(error) => {
                this.warn("cannot prepare the downloads of a build", &error);
                None
            }
        }
    }

    /// Keeps what the steps downloaded, and removes the folder.
    pub(in super::super) async fn end(self) {
        if let Err(error) = self.keep().await {
            self.warn("cannot keep the downloads of a build", &error);
        }
        if let Err(error) = self.script(CLEAN).await {
            self.warn("cannot remove the downloads from the computer of a build", &error);
        }
    }

    /// Gives the computer at most `most` bytes for each tool. Returns the number of archives.
    async fn fill(&self, most: u64) -> u32 {
        let what = "cannot use downloads of earlier builds";
        let mut count = 0;
        for tool in &self.tools {
            let archives = match self.caches.archives(self.account, tool.name(), most).await {
                Ok(archives) => archives,
                Err(error) => {
                    self.warn(what, &error);
                    continue;
                }
            };
            for path in archives {
                match self.unpack(&path).await {
                    Ok(()) => count += 1,
                    Err(error) => {
                        self.warn(what, &error);
                        // The others would wait as long for an agent that does not answer.
                        if matches!(error.kind, Kind::Unavailable | Kind::TimedOut) {
                            return count;
                        }
                    }
                }
            }
        }
        count
    }

    /// Gives the computer an archive. One that the agent refuses is removed.
    async fn unpack(&self, path: &Path) -> Result<()> {
        let file = tokio::fs::File::open(path).await;
        let file = file.map_err(|error| disk::failed("open", path, &error))?;
        let query = UnpackQuery { path: FOLDER.to_owned(), overwrite: true, parents: true };
        let query = serde_urlencoded::to_string(query).map_err(Error::internal)?;
        let request = Request::builder()
            .method(Method::PUT)
            .uri(format!("http://agent/files/archive?{query}"))
            .body(Body::from_stream(ReaderStream::new(file)))
            .map_err(Error::internal)?;
        let answer = self.guest.forward(request, TRANSFER_TIMEOUT).await?;
        if answer.status().is_success() {
            return Ok(());
        }
        if is_of_content(answer.status()) {
            downloads::remove(path).await?;
        }
        Err(self.guest.refusal(answer).await)
    }

    async fn keep(&self) -> Result<()> {
        self.script(COLLECT).await?;
        for tool in &self.tools {
            if let Err(error) = self.keep_of(*tool).await {
                self.warn(&format!("cannot keep the downloads of {}", tool.name()), &error);
            }
        }
        Ok(())
    }

    async fn keep_of(&self, tool: Tool) -> Result<()> {
        let query = ArchiveQuery { path: format!("{FOLDER}/new/{}", tool.name()), ..ArchiveQuery::default() };
        let opened = self.guest.open("/files/archive", query, TRANSFER_TIMEOUT).await;
        let body = match opened {
            Ok(answer) => answer.into_body(),
            // Nothing is new.
            Err(error) if error.kind == Kind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let pieces = body.into_data_stream().map(|piece| piece.map_err(io::Error::other));
        let bytes = self.caches.store(self.account, tool.name(), pieces).await?;
        self.note(&format!("{} KB of {} are kept for later builds", bytes.div_ceil(1000), tool.name()));
        Ok(())
    }

    /// Runs a script that no template wrote.
    async fn script(&self, script: &str) -> Result<()> {
        let (field, script) = (FIELD.to_owned(), script.to_owned());
        let step = BuildStep { kind: StepKind::Files, field, script };
        match run::run(self.guest, &step, &BTreeMap::new(), self.log).await? {
            0 => Ok(()),
            code => Err(Error::internal(format!("the script of downloads ended with exit code {code}"))),
        }
    }

    fn note(&self, line: &str) {
        self.log.add(Level::Info, Phase::Install, None, line);
    }

    fn warn(&self, what: &str, error: &Error) {
        tracing::warn!(account = %self.account, error = format_args!("{error:#}"), "{what}; the build goes on");
        self.log.add(Level::Warn, Phase::Install, None, &format!("{what}: {}", error.message));
    }
}

/// Whether an agent refuses an archive for its content or its size, and so every time.
fn is_of_content(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::CONFLICT
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_use_a_package_manager_are_found_by_its_name() {
        for (script, used) in [
            ("apt-get -q update", "apt"),
            ("sudo apt install jq", "apt"),
            ("python3 -m pip install x", "pip"),
            ("exec /usr/bin/npm ci", "npm"),
            ("npx tool && apt-get update && pip3 install x", "apt pip npm"),
            ("capture >adaptive; echo npm_config_cache pipe", ""),
        ] {
            let found: Vec<&str> =
                Tool::ALL.into_iter().filter(|tool| tool.is_used_by(script)).map(Tool::name).collect();
            assert_eq!(found.join(" "), used, "{script}");
        }
    }
}
