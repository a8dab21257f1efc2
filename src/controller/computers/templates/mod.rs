//! Templates: publication, and the begin and end of builds (docs/templates.md).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

mod apt;
mod build;
pub mod build_log;
pub mod catalogue;
mod check;
pub mod debug;
pub mod defaults;
mod launch;
mod queue;
mod retention;
mod runs;
pub mod save;
mod steps;
pub mod triggers;

pub use launch::LaunchSource;

use super::fleet::Fleet;
use super::runner::registry::stopping;
use crate::data_dir::downloads::DownloadCaches;
use build::Build;
use build_log::{Level, Phase};
use hotdesk_base::clock;
use hotdesk_base::ids::AccountId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::billing::plan::Plans;
use hotdesk_domain::computer::allowance::Allowance;
use hotdesk_domain::computer::template::TemplateRef;
use hotdesk_domain::computer::template::build::BuildStatus;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::error_code::ErrorCode;
use hotdesk_domain::plural::plural;
use hotdesk_store::Store;
use hotdesk_store::templates::builds::BuiltLayers;
use hotdesk_store::templates::definitions::StoredTemplate;
use hotdesk_wire::computer::template::TemplateBuild;
use hotdesk_wire::template::{TemplateDefinition, validate};
use queue::{BuildEnd, BuildQueue, RunningBuild};

/// Status of a template without a build.
const NOT_BUILT: &str = "not_built";
const BUILD_FAILED: &str = "The template could not be built";
const SAVED: &str = "was saved from a computer with another guest image, or its layers are gone, and it cannot be built \
    again: save a computer as another version";
const CANCELLED: &str = "the build was cancelled";
const INTERRUPTED: &str = "the service stopped during the build: build it again";

/// Templates of all accounts; cheap to clone.
#[derive(Clone)]
pub struct Templates(Arc<TemplatesState>);

struct TemplatesState {
    store: Store,
    fleet: Fleet,
    plans: Plans,
    builds: BuildQueue,
    downloads: DownloadCaches,
    base_turn: Mutex<()>,
    /// Longest build.
    build_timeout: Duration,
}

impl Templates {
    /// Creates the service of this fleet. A build that takes longer than `build_timeout` fails.
    pub fn new(
        store: Store,
        fleet: Fleet,
        plans: Plans,
        downloads: DownloadCaches,
        build_timeout: Duration,
    ) -> Self {
        let (builds, base_turn) = (BuildQueue::default(), Mutex::new(()));
        Self(Arc::new(TemplatesState { store, fleet, plans, builds, downloads, base_turn, build_timeout }))
    }

    /// Publishes a valid definition. With `replace` it may take the place of another document, whose build is cancelled.
    ///
    /// # Errors
    /// Those of [`Store::publish_template`].
    pub async fn publish(
        &self,
        account: AccountId,
        definition: &TemplateDefinition,
        replace: bool,
    ) -> Result<StoredTemplate> {
        let text = serde_json::to_string(definition).map_err(Error::internal)?;
        let template = StoredTemplate {
            account,
            reference: definition.reference(),
            digest: definition.digest(),
            definition: text,
            saved: false,
            created_at: clock::now(),
        };
        self.0.store.publish_template(&template, replace).await?;
        self.cancel_removed(account).await?;
        Ok(template)
    }

    /// Returns one of an account's templates, or one of the service, which belongs to the operator.
    ///
    /// # Errors
    /// `NotFound`; `Internal` when the database fails.
    pub async fn find(&self, account: AccountId, reference: &TemplateRef) -> Result<StoredTemplate> {
        let found = if reference.is_own() {
            self.0.store.template(account, reference).await?
        } else if reference.is_system() {
            self.of_service(reference).await?
        } else {
            None
        };
        found.ok_or_else(|| reference.not_found())
    }

    /// A template of the service: of its catalogue, or of an earlier version's, if that was built.
    async fn of_service(&self, reference: &TemplateRef) -> Result<Option<StoredTemplate>> {
        let operator = self.0.store.operator_account().await?;
        match catalogue::find(reference)? {
            Some(entry) => Ok(Some(entry.stored(operator))),
            None => self.0.store.template(operator, reference).await,
        }
    }

    /// Returns the templates of the catalogue.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn catalogue(&self) -> Result<Vec<StoredTemplate>> {
        let operator = self.0.store.operator_account().await?;
        Ok(catalogue::entries()?.iter().map(|entry| entry.stored(operator)).collect())
    }

    /// Removes a template; its build is cancelled if no other template has the same document.
    ///
    /// # Errors
    /// `NotFound`; `Forbidden` for a template of the service; `Internal` when the database fails.
    pub async fn remove(&self, account: AccountId, reference: &TemplateRef) -> Result<()> {
        let template = self.find(account, reference).await?;
        if reference.is_system() {
            return Err(Error::forbidden(format!(
                "{reference} is part of the service and cannot be deleted"
            )));
        }
        self.0.store.remove_template(account, &template.reference).await?;
        self.cancel_removed(account).await
    }

    /// Cancels the builds of documents that the account has no template of any more.
    async fn cancel_removed(&self, account: AccountId) -> Result<()> {
        for digest in self.0.builds.digests(account) {
            if !self.0.store.is_published(account, &digest).await? {
                self.0.builds.cancel(account, &digest).await;
            }
        }
        Ok(())
    }

    /// Returns the status of a template's build.
    ///
    /// # Errors
    /// `Internal` when the database fails.
    pub async fn status(&self, template: &StoredTemplate) -> Result<TemplateBuild> {
        let build = self.0.store.template_build(template.account, &template.digest).await?;
        let time = |began_at: UnixMillis, ended_at: Option<UnixMillis>| {
            let duration = ended_at?.since(began_at)?;
            u64::try_from(duration.as_millis()).ok()
        };
        Ok(TemplateBuild {
            reference: template.reference.to_string(),
            digest: template.digest.clone(),
            status: match &build {
                Some(build) => build.status.name().to_owned(),
                // The guest image as it is.
                None if template.is_plain_desktop() => BuildStatus::Ready.name().to_owned(),
                None => NOT_BUILT.to_owned(),
            },
            build_time_ms: build.as_ref().and_then(|build| time(build.began_at, build.ended_at)),
            reused: None,
            error: build.and_then(|build| build.error),
        })
    }

    /// Returns the log of the last build of a template since the start of the controller.
    pub fn log(&self, template: &StoredTemplate) -> Option<Arc<RunningBuild>> {
        self.0.builds.last(template.account, &template.digest)
    }

    /// Cancels the build of a document and waits until nothing of it is left.
    ///
    /// # Errors
    /// `Conflict` when none runs.
    pub async fn cancel(&self, template: &StoredTemplate) -> Result<()> {
        if self.0.builds.cancel(template.account, &template.digest).await {
            return Ok(());
        }
        Err(Error::conflict(format!("no build of {} runs", template.reference)))
    }

    /// Begins the build of a template, unless it is built already or being built. It continues if the caller disconnects.
    ///
    /// # Errors
    /// `Conflict` (`TEMPLATE_NOT_READY`) for a saved template whose layers cannot be used any more; `TooManyRequests`
    /// (`too_many_builds`) when too many builds of the account wait or run; `Internal` when the database
    /// fails.
    pub async fn build(&self, template: &StoredTemplate) -> Result<TemplateBuild> {
        let (account, digest) = (template.account, &template.digest);
        if template.is_plain_desktop() {
            return Ok(TemplateBuild { reused: Some(true), ..self.status(template).await? });
        }
        if self.ready_layers(template).await?.is_some() {
            return Ok(TemplateBuild { reused: Some(true), ..self.status(template).await? });
        }
        if template.saved {
            let message = format!("The template {} {SAVED}", template.reference);
            return Err(Error::conflict(message).code(ErrorCode::TemplateNotReady));
        }
        if template.reference.is_system() {
            self.0.store.publish_system_template(template).await?;
        }
        let build = RunningBuild::new(account, digest);
        if !self.0.builds.register(&build)? {
            return self.status(template).await;
        }
        // Whatever ends the task, also before it begins, ends the build.
        let end = BuildEnd(Arc::clone(&build));
        let (begun, stored) = oneshot::channel();
        let (this, built) = (self.clone(), template.clone());
        let _task = self.0.fleet.shared.tasks.spawn("template build", async move {
            let _end = end;
            let began = this.0.store.begin_template_build(built.account, &built.digest).await;
            let runs = matches!(began, Ok(true));
            // The receiver is gone when the caller disconnected.
            let _ = begun.send(began);
            if runs {
                this.run(&build, &built).await;
            }
        });
        if !stored.await.map_err(|_| stopping())?? {
            return Err(template.reference.not_found());
        }
        self.status(template).await
    }

    async fn run(&self, build: &RunningBuild, template: &StoredTemplate) {
        let log = &build.log;
        let begun = format!("{} ({}) waits for its turn", template.reference, template.digest);
        log.add(Level::Info, Phase::Publish, None, &begun);
        let outcome = self.make(build, template).await;
        let told = match &outcome {
            Ok(built) => {
                let layers = plural(u32::try_from(built.layers.len()).unwrap_or(u32::MAX), "layer");
                log.add(Level::Info, Phase::Record, None, &layers);
                Ok(built)
            }
            Err(error) => {
                // The other lines are output of the template's own programs.
                let why = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
                tracing::info!(template = %template.reference, error = why, "a build failed");
                Err(log.fail(&error.message))
            }
        };
        let TemplatesState { store, fleet, plans, .. } = &*self.0;
        if let Ok(built) = &told
            && let Err(error) = defaults::want_boot_snapshot(&fleet.shared, plans, template, built).await
        {
            tracing::warn!(
                template = %template.reference,
                error = format_args!("{error:#}"),
                "no boot snapshot is made of a template before its first launch"
            );
        }
        let is_ready = told.is_ok();
        let told = told.as_ref().copied().map_err(String::as_str);
        match store.end_template_build(build.account, &build.digest, told).await {
            Ok(()) if is_ready => log.add(Level::Success, Phase::Ready, None, "the template is ready"),
            Ok(()) => {}
            Err(error) => {
                tracing::error!(
                    template = %template.reference,
                    error = format_args!("{error:#}"),
                    "could not store how a build ended; the next start stores that it failed"
                );
                log.fail(
                    "how the build ended could not be stored: build it again after a restart of the service",
                );
            }
        }
    }

    async fn make(&self, build: &RunningBuild, template: &StoredTemplate) -> Result<BuiltLayers> {
        let definition = parse(template).await?;
        let _turn = self.0.builds.turn(build, self.0.fleet.shared.tasks.stopping()).await?;
        let build = Build {
            fleet: &self.0.fleet.shared,
            account: build.account,
            operator: self.0.store.operator_account().await?,
            downloads: &self.0.downloads,
            base_turn: &self.0.base_turn,
            digest: &build.digest,
            plans: &self.0.plans,
            definition: &definition,
            log: &build.log,
            cancel: &build.cancel,
            deadline: Instant::now() + self.0.build_timeout,
        };
        build.run().await
    }
}

/// Checks that an account may make one more layer, and returns what its plan permits.
///
/// # Errors
/// `Forbidden` (`DISK_QUOTA_EXCEEDED`) when the account's disk is used up; `Unavailable` or `Internal` when the store fails.
async fn check_disk(store: &Store, plans: &Plans, account: AccountId) -> Result<Allowance> {
    let allowance = plans.terms(&store.standing(account).await?)?.allowance;
    let used = store.resource_use(account).await?.disk_gb;
    if used < allowance.account_disk_gb {
        return Ok(allowance);
    }
    let message = format!(
        "the account uses {used} of {} GB of disk: delete computers, snapshots or templates",
        allowance.account_disk_gb
    );
    Err(Error::forbidden(message).code(ErrorCode::DiskQuotaExceeded))
}

/// The definition of a published template. The largest documents take longer than other requests may wait for this thread.
///
/// # Errors
/// `Unprocessable` (`template_invalid`) for one that an earlier version of the service accepted and this one cannot build.
async fn parse(template: &StoredTemplate) -> Result<TemplateDefinition> {
    let text = template.definition.clone();
    let checked = hotdesk_base::tasks::spawn_blocking(move || validate(text.as_bytes()));
    checked.await.map_err(Error::internal)?.map_err(|errors| {
        let first = errors.first().map(|error| error.sentence()).unwrap_or_default();
        let next = if template.saved { "save its computer again" } else { "publish another version" };
        let message = format!("the template {} is invalid: {first}: {next}", template.reference);
        Error::unprocessable(message).code(ErrorCode::TemplateInvalid)
    })
}
