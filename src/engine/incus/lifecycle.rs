//! Creation, start, stop and removal of instances, and observation of their states.

use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};

use crate::incus::IncusEngine;
use crate::incus::client::{ClientError, FileContent};
use crate::incus::documents::{self, BOOT_FOLDER, BootMode, Instance, OWNER, Power};
use crate::incus::members::UNSURE;
use crate::incus::network::Bridge;
use crate::incus::sandbox::{SAVED_GENERATION_FILE, bundle};
use crate::state::boot_files::{self, BootFile};
use crate::{Boot, Endpoint, EngineError, EngineResult, MachineSpec, Observation};
use hotdesk_base::ids::ComputerId;
use hotdesk_domain::computer::isolation::Isolation;

const CREATE: &str = "create the instance";
const START: &str = "start the machine";
const STOP: &str = "stop the machine";
const DESTROY: &str = "remove the instance";
const OBSERVE: &str = "observe the machine";

/// Timeout of a creation: a member that lacks the image fetches and unpacks it first.
const CREATE_TIMEOUT: Duration = Duration::from_secs(600);
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Timeout of an end by force, and of a removal.
const END_TIMEOUT: Duration = Duration::from_secs(120);
/// Additional time of a stop that the guest was asked for, which Incus bounds itself.
const STOP_MARGIN: Duration = Duration::from_secs(20);
/// How long an instance may be busy with the operation of an earlier controller.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
const BUSY_PAUSE: Duration = Duration::from_millis(500);
/// Longest time until Incus notes the end of an instance that shows as stopped.
const END_NOTE_TIMEOUT: Duration = Duration::from_secs(5);
const END_NOTE_PAUSE: Duration = Duration::from_millis(200);
/// Longest time until an instance with whole memory has ended: its launcher waits 5 s for the reader of its answer.
const ENDING_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause of a waiter before a second look after an event: Incus sends it just before it shows the instance as stopped.
const EVENT_PAUSE: Duration = Duration::from_secs(1);
/// Pause of a waiter while the server or the instance's member does not answer.
const BLIND_PAUSE: Duration = Duration::from_secs(5);

impl IncusEngine {
    /// The instance of a computer, and the tag of its content; `None` when there is none.
    pub(super) async fn find(
        &self,
        id: ComputerId,
        step: &'static str,
    ) -> EngineResult<Option<(Instance, String)>> {
        self.cluster.ensure_names().await?;
        let name = self.cluster.name(id);
        match self.client.get_tagged(&documents::path_of(&name)).await {
            Ok((found, tag)) => {
                let instance: Instance =
                    serde_json::from_value(found).map_err(|error| EngineError::failed(step, error))?;
                // An instance of another controller has the same name only by an error of its operator.
                if instance.label(OWNER) != Some(self.owner.as_str()) {
                    let detail = format!("{name} belongs to another controller");
                    return Err(EngineError::failed(step, detail));
                }
                self.cluster.note_location(&name, &instance.location);
                Ok(Some((instance, tag)))
            }
            Err(error) if error.is_missing() => {
                // The database of the cluster has no such instance: it is on no member any more.
                self.cluster.forget_location(&name);
                Ok(None)
            }
            Err(error) => Err(error.at(step)),
        }
    }

    /// The instance of a computer whose creation has finished.
    pub(super) async fn find_made(
        &self,
        id: ComputerId,
        step: &'static str,
    ) -> EngineResult<Option<(Instance, String)>> {
        Ok(self.find(id, step).await?.filter(|(instance, _)| instance.is_made()))
    }

    /// [`Self::find_or_complete`], after the end of an instance that ends because its memory is whole.
    pub(super) async fn find_settled(
        &self,
        id: ComputerId,
        step: &'static str,
    ) -> EngineResult<Option<(Instance, String)>> {
        let deadline = Instant::now() + ENDING_TIMEOUT;
        loop {
            let Some((instance, tag)) = self.find_or_complete(id, step).await? else { return Ok(None) };
            let saved = instance.saved();
            let may_end =
                instance.power() == Power::Running && saved.is_some() && saved == instance.generation();
            // The label may be that of a suspend that failed. A guest that is being copied has the file too, and goes on.
            if !may_end || Instant::now() >= deadline || self.saved_memory(id, &instance).await?.is_none() {
                return Ok(Some((instance, tag)));
            }
            tokio::time::sleep(END_NOTE_PAUSE).await;
        }
    }

    /// The bridge of computers; `None` where they have no network.
    pub(super) async fn bridge(&self) -> EngineResult<Option<Bridge>> {
        Bridge::read(&self.client, &self.settings, &self.host.network).await
    }

    /// Makes the instance of a computer, on a member or where the server chooses.
    pub(super) async fn create_instance(&self, spec: &MachineSpec, host: Option<&str>) -> EngineResult<()> {
        check_supported(spec)?;
        if !self.needs_instance(spec.id).await? {
            return Ok(());
        }
        let image = self.guest_image(spec.isolation).await?.find(&self.client).await?;
        if let Some(base) = &image.base {
            self.bring_base(base, host, CREATE).await?;
        }
        let network = match self.bridge().await? {
            Some(bridge) => Some(self.addresses.claim(&self.client, &bridge, spec.id).await?),
            None => None,
        };
        let document = documents::create(&self.settings, spec, &self.owner, &image, network.as_ref());
        let path = self.path_on(host, CREATE).await?;
        self.make(spec.id, &path, &document, CREATE).await
    }

    /// Whether the instance of a computer must be made. Removes one that is not whole.
    pub(super) async fn needs_instance(&self, id: ComputerId) -> EngineResult<bool> {
        match self.find(id, CREATE).await? {
            Some((instance, _)) if instance.is_made() => Ok(false),
            Some(_) => self.remove(id).await.map(|()| true),
            None => Ok(true),
        }
    }

    /// Makes an instance and labels it as whole.
    pub(super) async fn make(
        &self,
        id: ComputerId,
        path: &str,
        document: &Value,
        step: &'static str,
    ) -> EngineResult<()> {
        self.make_unlabelled(path, document, step).await?;
        self.label_made(id, step).await
    }

    /// Makes an instance, which is not whole until [`Self::label_made`].
    pub(super) async fn make_unlabelled(
        &self,
        path: &str,
        document: &Value,
        step: &'static str,
    ) -> EngineResult<()> {
        let made = self.client.run(Method::POST, path, Some(document), CREATE_TIMEOUT).await;
        made.map(drop).map_err(|error| error.at(step))
    }

    /// Labels an instance as whole.
    pub(super) async fn label_made(&self, id: ComputerId, step: &'static str) -> EngineResult<()> {
        let label = json!({ "config": { documents::MADE: "1" } });
        self.client.patch(&self.cluster.path(id), &label, None).await.map_err(|error| error.at(step))
    }

    /// Boots an instance from its disk, or from the memory that is saved there.
    pub(super) async fn start_instance(
        &self,
        spec: &MachineSpec,
        boot: &Boot,
        mode: BootMode,
    ) -> EngineResult<Endpoint> {
        check_supported(spec)?;
        let Some((mut instance, mut tag)) = self.find_or_complete(spec.id, START).await? else {
            return Err(EngineError::Absent);
        };
        let is_earlier = instance.generation() != Some(boot.generation);
        let is_ending = is_earlier && instance.saved().is_some() && instance.saved() == instance.generation();
        if mode == BootMode::FromMemory && is_ending && instance.power() == Power::Running {
            // Its memory is saved. Incus shows an instance that ended by itself as stopped, and then as running until it has
            // cleaned up after it.
            self.kill(spec.id).await?;
            (instance, tag) = self.find_made(spec.id, START).await?.ok_or(EngineError::Absent)?;
        }
        match instance.power() {
            Power::Running if instance.generation() == Some(boot.generation) => {
                return self.links.ensure(spec.id, instance.program()).map(Endpoint::Unix);
            }
            Power::Running => {
                let runs = instance.generation().map_or("none".to_owned(), |runs| runs.to_string());
                let detail = format!("it runs generation {runs}, not {}", boot.generation);
                return Err(EngineError::failed(START, detail));
            }
            Power::Unknown => return Err(unknown(START, &instance)),
            Power::Stopped => {}
        }
        self.refuse_while_moving(spec.id, &instance, START).await?;
        check_isolation(spec, &instance)?;
        match (mode, self.saved_memory(spec.id, &instance).await?) {
            (BootMode::FromDisk, None) | (BootMode::FromMemory, Some(_)) => {}
            (BootMode::FromDisk, Some(_)) => return Err(EngineError::failed(START, "its memory is saved")),
            (BootMode::FromMemory, None) => {
                return Err(EngineError::failed("continue the machine", "it has no saved memory"));
            }
        }
        self.links.close(spec.id)?;
        self.prepare(spec, (boot, mode), &instance, &tag).await?;
        let action = json!({ "action": "start", "timeout": 60 });
        if let Err(error) = self.set_state(spec.id, &action, START_TIMEOUT).await {
            // Its answer may have been lost.
            self.end_failed(spec.id).await;
            return Err(error.at(START));
        }
        if spec.isolation == Isolation::Sandbox {
            self.await_boot(spec.id, boot.generation).await?;
            if mode == BootMode::FromMemory {
                self.forget_memory(spec.id).await;
            }
        }
        self.links.ensure(spec.id, instance.program()).map(Endpoint::Unix)
    }

    /// Ends the instance of a failed start.
    pub(super) async fn end_failed(&self, id: ComputerId) {
        if let Err(error) = self.kill(id).await {
            tracing::warn!(
                computer = %id,
                error = format_args!("{error:#}"),
                "could not end the instance of a failed start"
            );
        }
    }

    /// Writes what a boot needs: the configuration with the generation, then the files.
    async fn prepare(
        &self,
        spec: &MachineSpec,
        (boot, mode): (&Boot, BootMode),
        instance: &Instance,
        tag: &str,
    ) -> EngineResult<()> {
        let bridge = self.bridge().await?;
        let network = match (&bridge, instance.address()) {
            (Some(bridge), Some(address)) => Some(bridge.guest(address)),
            (Some(bridge), None) => Some(self.addresses.claim(&self.client, bridge, spec.id).await?),
            (None, _) => None,
        };
        let init_args = self.host.init_args.as_deref();
        let change =
            documents::boot(&self.settings, spec, (boot, mode), instance, network.as_ref(), init_args);
        // Refused when another controller has changed the instance since: it may be starting it. It is the first change,
        // because those of files may change the tag.
        let (path, tag) = (self.cluster.path(spec.id), Some(tag).filter(|tag| !tag.is_empty()));
        self.client.patch(&path, &change, tag).await.map_err(|error| error.at(START))?;
        let agent = self.agent()?;
        // Saved memory refers to the agent of its boot.
        if mode == BootMode::FromDisk && instance.agent() != Some(agent.digest.as_str()) {
            let file = tokio::fs::File::open(&agent.path).await;
            let file = file.map_err(|error| EngineError::failed(START, error))?;
            self.push(spec.id, instance.program(), 0o755, FileContent::Copy(file)).await?;
            let label = json!({ "config": { documents::AGENT: agent.digest } });
            self.client.patch(&path, &label, None).await.map_err(|error| error.at(START))?;
        }
        let resolv_conf = bridge.map(|bridge| bridge.resolv_conf()).unwrap_or_default();
        if spec.isolation == Isolation::Sandbox {
            if let (BootMode::FromMemory, Some(generation)) = (mode, instance.saved()) {
                let text = FileContent::Text(generation.to_string());
                self.push(spec.id, SAVED_GENERATION_FILE, 0o600, text).await?;
            }
            for file in bundle::files(spec, boot, &resolv_conf, self.host.init_args.as_deref()) {
                self.push(spec.id, &file.path, file.mode, FileContent::Text(file.text)).await?;
            }
            return Ok(());
        }
        self.push(spec.id, BOOT_FOLDER, 0o700, FileContent::Folder).await?;
        for BootFile { name, text, mode } in boot_files::files(spec, boot, &resolv_conf) {
            let Some(path) = guest_path(name) else { continue };
            self.push(spec.id, &path, mode, FileContent::Text(text)).await?;
        }
        Ok(())
    }

    async fn push(&self, id: ComputerId, path: &str, mode: u32, content: FileContent) -> EngineResult<()> {
        let pushed = self.client.push(&self.cluster.name(id), path, mode, content).await;
        pushed.map_err(|error| match error.at(START) {
            EngineError::Failed { step, detail } => EngineError::failed(step, format!("{path}: {detail}")),
            other @ (EngineError::NoCapacity(..)
            | EngineError::Absent
            | EngineError::MemoryInUse { .. }
            | EngineError::Unsupported(_)
            | EngineError::Damaged(_)) => other,
        })
    }

    /// Ends a machine. Memory that it had just saved is dropped: it was ended, not suspended.
    pub(super) async fn stop_machine(&self, id: ComputerId, grace: Duration) -> EngineResult<()> {
        let before = self.find(id, STOP).await?;
        self.stop_instance(id, grace).await?;
        let ran = before.is_some_and(|(it, _)| it.power() == Power::Running && it.saved().is_some());
        if ran { self.discard_saved(id).await } else { Ok(()) }
    }

    pub(super) async fn stop_instance(&self, id: ComputerId, grace: Duration) -> EngineResult<()> {
        let Some((instance, _)) = self.find(id, STOP).await? else { return self.links.close(id) };
        if instance.power() == Power::Running && !grace.is_zero() {
            let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
            let request = json!({ "action": "stop", "timeout": seconds, "force": false });
            if let Err(error) = self.set_state(id, &request, grace + STOP_MARGIN).await {
                tracing::debug!(computer = %id, %error, "the instance did not stop when it was asked to");
            }
        }
        self.kill(id).await?;
        self.links.close(id)
    }

    /// Ends an instance by force unless it is stopped.
    async fn kill(&self, id: ComputerId) -> EngineResult<()> {
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            match self.find(id, STOP).await? {
                None => return Ok(()),
                Some((instance, _)) if instance.power() == Power::Stopped => {
                    return self.await_end_note(id, instance).await;
                }
                Some((instance, _)) if instance.power() == Power::Unknown => {
                    return Err(unknown(STOP, &instance));
                }
                Some(_) => {}
            }
            let request = json!({ "action": "stop", "timeout": -1, "force": true });
            match self.set_state(id, &request, END_TIMEOUT).await {
                Ok(()) if Instant::now() < deadline => {}
                Ok(()) => return Err(EngineError::failed(STOP, "it runs after an end by force")),
                // It may have ended by itself meanwhile, which the next look shows.
                Err(_) if Instant::now() < deadline => tokio::time::sleep(BUSY_PAUSE).await,
                Err(error) => return Err(error.at(STOP)),
            }
        }
    }

    /// Waits until Incus has noted the end of an instance that shows as stopped: until then it would show it as running once more.
    /// It may never note it, for example after a crash of the host, or after a rollback to a snapshot of a time when it ran.
    ///
    /// # Errors
    /// `Failed` when it still shows as running.
    async fn await_end_note(&self, id: ComputerId, stopped: Instance) -> EngineResult<()> {
        let begun = Instant::now();
        let (mut seen, mut pause) = (stopped, END_NOTE_PAUSE);
        loop {
            let timeout = match seen.power() {
                Power::Stopped if seen.is_end_noted() => return Ok(()),
                Power::Stopped => END_NOTE_TIMEOUT,
                Power::Running => BUSY_TIMEOUT,
                Power::Unknown => return Ok(()),
            };
            if begun.elapsed() >= timeout {
                return match seen.power() {
                    Power::Running => {
                        Err(EngineError::failed(STOP, "it shows as running again after its end"))
                    }
                    Power::Stopped | Power::Unknown => Ok(()),
                };
            }
            // Longer each time: after a crash of a host with many computers none of them has a note.
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(EVENT_PAUSE);
            let Some((instance, _)) = self.find(id, STOP).await? else { return Ok(()) };
            seen = instance;
        }
    }

    async fn set_state(&self, id: ComputerId, request: &Value, timeout: Duration) -> Result<(), ClientError> {
        let path = format!("{}/state", self.cluster.path(id));
        self.client.run(Method::PUT, &path, Some(request), timeout).await.map(drop)
    }

    pub(super) async fn destroy_instance(&self, id: ComputerId) -> EngineResult<()> {
        // The copy of an interrupted move gets its name first, so that it is removed, too.
        self.find_or_complete(id, DESTROY).await?;
        if self.find(id, DESTROY).await?.is_some() {
            self.remove(id).await?;
        }
        self.remove_copies(id, DESTROY).await?;
        self.addresses.release(id).await;
        self.links.close(id)
    }

    /// Ends and removes an instance with its snapshots.
    pub(super) async fn remove(&self, id: ComputerId) -> EngineResult<()> {
        let deadline = Instant::now() + BUSY_TIMEOUT;
        loop {
            self.kill(id).await?;
            match self.client.run(Method::DELETE, &self.cluster.path(id), None, END_TIMEOUT).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_missing() => return Ok(()),
                Err(error) if error.is_busy() && Instant::now() < deadline => {
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(error) => return Err(error.at(DESTROY)),
            }
        }
    }

    pub(super) async fn observe_instance(&self, id: ComputerId) -> EngineResult<Observation> {
        let Some((instance, _)) = self.find_settled(id, OBSERVE).await? else {
            // A machine that was lost with its host is no absent one: it has a replica.
            if self.cluster.is_unsure_of_lost() {
                return Err(EngineError::failed(OBSERVE, UNSURE));
            }
            return Ok(Observation::Absent);
        };
        match instance.power() {
            Power::Stopped => Ok(match self.saved_memory(id, &instance).await? {
                Some(generation) => Observation::Suspended { generation },
                None => Observation::Stopped,
            }),
            Power::Unknown => Err(unknown(OBSERVE, &instance)),
            Power::Running => {
                let generation = instance.generation().ok_or_else(|| {
                    EngineError::failed(OBSERVE, "it runs, and no controller of hotdesk has started it")
                })?;
                let endpoint = Endpoint::Unix(self.links.ensure(id, instance.program())?);
                // Its address is one of its member's bridge, not of this host.
                Ok(Observation::Running { generation, endpoint, address: None })
            }
        }
    }

    pub(super) async fn list_instances(&self) -> EngineResult<Vec<ComputerId>> {
        const STEP: &str = "list the instances";
        let path = format!("/1.0/instances?filter=config.{OWNER}%20eq%20{}", self.owner);
        let listed = self.client.get(&path).await.map_err(|error| error.at(STEP))?;
        let paths: Vec<String> =
            serde_json::from_value(listed).map_err(|error| EngineError::failed(STEP, error))?;
        let mut ids: Vec<ComputerId> = paths.iter().filter_map(|path| documents::id_of_path(path)).collect();
        ids.sort();
        // Superseded instances have the id of their computer.
        ids.dedup();
        Ok(ids)
    }

    /// Waits until an instance does not run. While nobody can say whether it runs, it counts as running: its member may have
    /// lost only its network.
    pub(super) async fn wait_until_stopped(&self, id: ComputerId) {
        let notices = self.watch.subscribe(id);
        let mut is_notified = false;
        loop {
            match self.find(id, OBSERVE).await {
                Ok(None) => return,
                Ok(Some((instance, _))) if instance.power() == Power::Stopped => {
                    if let Err(error) = self.await_end_note(id, instance).await {
                        tracing::debug!(
                            computer = %id,
                            error = format_args!("{error:#}"),
                            "could not look whether the end of the machine is noted"
                        );
                    }
                    return;
                }
                Ok(Some((instance, _))) if instance.power() == Power::Running => {
                    if is_notified {
                        tokio::time::sleep(EVENT_PAUSE).await;
                    } else {
                        notices.next().await;
                    }
                    is_notified = !is_notified;
                }
                Ok(Some(_)) => tokio::time::sleep(BLIND_PAUSE).await,
                Err(error) => {
                    tracing::debug!(
                        computer = %id,
                        error = format_args!("{error:#}"),
                        "could not look whether the machine runs"
                    );
                    tokio::time::sleep(BLIND_PAUSE).await;
                }
            }
        }
    }
}

/// Refuses what instances cannot have.
pub(super) fn check_supported(spec: &MachineSpec) -> EngineResult<()> {
    if !spec.layers.is_empty() {
        return Err(EngineError::Unsupported("begin from layers of a template"));
    }
    if spec.egress.is_some() {
        return Err(EngineError::Unsupported("restrict the network of machines"));
    }
    Ok(())
}

/// Refuses to boot an instance as another isolation: its image and its disk have the form of one.
fn check_isolation(spec: &MachineSpec, instance: &Instance) -> EngineResult<()> {
    let [made, wanted] = [instance.isolation(), spec.isolation].map(Isolation::name);
    if made == wanted {
        return Ok(());
    }
    let detail =
        format!("the instance was made with isolation {made} and keeps it: set the computer to {made}");
    Err(EngineError::failed(START, detail))
}

/// The path in a computer of a file of its boot; `None` for files that instances have otherwise.
fn guest_path(name: &str) -> Option<String> {
    match name {
        "token" => Some(format!("{BOOT_FOLDER}/{name}")),
        "machine-id" | "resolv.conf" | "hosts" | "hostname" => Some(format!("/etc/{name}")),
        // The agent reads the limits of its control groups.
        _ => None,
    }
}

fn unknown(step: &'static str, instance: &Instance) -> EngineError {
    let detail = format!(
        "its member {:?} does not answer (status {:?}); it may still run",
        instance.location, instance.status
    );
    EngineError::failed(step, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_a_boot_has_a_place_or_another_source() {
        for (name, expected) in [
            ("token", Some("/var/lib/hotdesk-boot/token")),
            ("machine-id", Some("/etc/machine-id")),
            ("hosts", Some("/etc/hosts")),
            ("limits.json", None),
        ] {
            assert_eq!(guest_path(name).as_deref(), expected, "{name}");
        }
    }
}
