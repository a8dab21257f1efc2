//! Members of a cluster: which of them answer, which instances they have, and which instance is a computer's machine.
//!
//! ```text
//!   look, every few seconds:  members of the cluster -- status; each online one is asked for its state
//!                             -> outages by member
//!                a member joined or left: computers with a replica, and no machine any more -> lost with their member
//!                seldom:      names of all instances (the database answers alone) -> number of each computer's machine
//!                             members of all instances: this asks every member
//!                each time:   superseded instances of members that answer -> stopped and labelled
//! ```
//! The cluster counts a member as offline only after its own threshold (`cluster.offline_threshold`), so each is asked too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use crate::incus::client::{Client, ClientError};
use crate::incus::documents::{self, FENCED, FROM, Instance, OWNER, Power};
use crate::{EngineError, EngineResult};
use hotdesk_base::clock;
use hotdesk_base::ids::ComputerId;
use hotdesk_base::time::UnixMillis;
use hotdesk_domain::host::outage::{HostOutage, HostState, outages_after};

const LIST: &str = "list the members of the cluster";
const NAMES: &str = "list the names of the instances";
const LOCATIONS: &str = "list the members of the instances";
pub(super) const UNSURE: &str = "it is not known yet which computers were lost with a removed member";
/// Longest silence of a member that counts as online. Other members answer for it only after 10 s, by an error.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// Members that are asked at the same time.
const ASKED_AT_ONCE: usize = 16;
/// Time between two lists of the members of all instances. Each use of an instance notes its member, too.
const LOCATION_INTERVAL: Duration = Duration::from_secs(300);
/// Timeout of the end of a superseded instance.
const FENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The cluster of an engine, as the last look saw it.
#[derive(Debug)]
pub(super) struct Cluster {
    client: Client,
    owner: String,
    /// One look at a time; with it, when the members of all instances were listed.
    looking: tokio::sync::Mutex<LookState>,
    seen: Mutex<ClusterView>,
}

#[derive(Debug, Default)]
struct LookState {
    /// When the last look began.
    began: Option<Instant>,
    is_clustered: Option<bool>,
    located: Option<Instant>,
    /// Superseded instances that were stopped and labelled since their member answers.
    fenced: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct ClusterView {
    members: BTreeMap<String, HostState>,
    outages: BTreeMap<String, UnixMillis>,
    /// The member of each instance, by the instance's name.
    locations: BTreeMap<String, String>,
    /// How often computers began from a replica, if they did; `None` until the names were listed.
    numbers: Option<BTreeMap<ComputerId, u32>>,
    /// Computers whose machine was removed with its member, and whose replica is on another one.
    lost: BTreeMap<ComputerId, HostOutage>,
    /// Whether all of them are known for the present members; `None` before the first look, and where there is no cluster.
    knows_lost: Option<bool>,
}

#[derive(Deserialize)]
struct MemberStatus {
    server_name: String,
    status: String,
}

impl MemberStatus {
    /// Whether the cluster counts it as offline.
    fn is_offline(&self) -> bool {
        self.status.eq_ignore_ascii_case("offline")
    }
}

#[derive(Deserialize)]
struct LocatedInstance {
    name: String,
    #[serde(default)]
    location: String,
}

impl Cluster {
    pub(super) fn new(client: Client, owner: String) -> Self {
        Self { client, owner, looking: tokio::sync::Mutex::default(), seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, ClusterView> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at all members once. A server without a cluster has none.
    pub(super) async fn look(&self) {
        let asked = Instant::now();
        let mut looks = self.looking.lock().await;
        // Several that wait for a look share it.
        if looks.began.is_some_and(|began| began > asked) {
            return;
        }
        looks.began = Some(Instant::now());
        let looked = self.look_at_members(&mut looks).await;
        let followed = match looked {
            Ok(true) => self.look_at_instances(&mut looks).await,
            other => other.map(drop),
        };
        if let Err(error) = followed {
            tracing::debug!(error = format_args!("{error:#}"), "could not look at the whole cluster");
        }
    }

    /// Returns whether there is a cluster.
    async fn look_at_members(&self, looks: &mut LookState) -> EngineResult<bool> {
        let is_clustered = match looks.is_clustered {
            Some(known) => known,
            None => {
                let cluster = self.ask("/1.0/cluster").await.map_err(|error| error.at(LIST))?;
                *looks.is_clustered.insert(cluster["enabled"] == true)
            }
        };
        if !is_clustered {
            return Ok(false);
        }
        let listed = self.list_members().await;
        let states = match &listed {
            Ok(members) => {
                let states = self.states(members).await;
                // Before the removed members are forgotten: their computers count as out all the time.
                if let Err(error) = self.look_for_lost(&states).await {
                    // So that the next look sees the change of the members again.
                    self.note_states(self.all_silent().into_iter().chain(states).collect());
                    return Err(error);
                }
                states
            }
            // Whether one of them answers, nobody can say.
            Err(_) => self.all_silent(),
        };
        self.note_states(states);
        listed.map(|_| true)
    }

    fn all_silent(&self) -> BTreeMap<String, HostState> {
        self.seen().members.keys().map(|name| (name.clone(), HostState::Silent)).collect()
    }

    async fn list_members(&self) -> EngineResult<Vec<MemberStatus>> {
        let listed = self.ask("/1.0/cluster/members?recursion=1").await.map_err(|error| error.at(LIST))?;
        serde_json::from_value(listed).map_err(|error| EngineError::failed(LIST, error))
    }

    /// Reads a thing that the cluster answers at once.
    async fn ask(&self, path: &str) -> Result<serde_json::Value, ClientError> {
        let asked = tokio::time::timeout(ANSWER_TIMEOUT, self.client.get(path)).await;
        asked.unwrap_or_else(|_| {
            Err(ClientError::Unreachable(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())))
        })
    }

    async fn states(&self, members: &[MemberStatus]) -> BTreeMap<String, HostState> {
        let mut asked = Vec::new();
        for member in members {
            let (name, is_offline) = (member.server_name.clone(), member.is_offline());
            asked.push(async move {
                let answered = if is_offline { None } else { Some(self.answers(&name).await) };
                (name, HostState::of(is_offline, answered))
            });
        }
        stream::iter(asked).buffer_unordered(ASKED_AT_ONCE).collect().await
    }

    /// Whether a member answers. One about which this client may not ask counts as answering.
    async fn answers(&self, member: &str) -> bool {
        match self.ask(&format!("/1.0/cluster/members/{member}/state")).await {
            Ok(_) | Err(ClientError::Refused { status: 403 | 404, .. }) => true,
            Err(ClientError::Refused { .. } | ClientError::Unreachable(_)) => false,
        }
    }

    fn note_states(&self, states: BTreeMap<String, HostState>) {
        let mut seen = self.seen();
        let outages = outages_after(&seen.outages, &states, clock::now());
        for member in outages.keys().filter(|member| !seen.outages.contains_key(*member)) {
            tracing::warn!(member, "a host does not answer; its computers may still run");
        }
        for member in seen.outages.keys().filter(|member| !outages.contains_key(*member)) {
            tracing::info!(member, "a host answers again, or was removed");
        }
        seen.members = states;
        seen.outages = outages;
    }

    /// Finds the computers that were lost with a removed member, once after each change of the members.
    async fn look_for_lost(&self, members: &BTreeMap<String, HostState>) -> EngineResult<()> {
        {
            let mut seen = self.seen();
            if seen.knows_lost == Some(true) && seen.members.keys().eq(members.keys()) {
                return Ok(());
            }
            seen.knows_lost = Some(false);
        }
        let names = self.list_names().await?;
        let (mut lost, mut is_whole) = (BTreeMap::new(), true);
        for (id, replica) in replicas_without_machine(&names) {
            let label = match self.ask(&documents::path_of(&replica)).await {
                Ok(found) => {
                    let instance: Instance =
                        serde_json::from_value(found).map_err(|error| EngineError::failed(NAMES, error))?;
                    if instance.label(OWNER) != Some(self.owner.as_str()) {
                        continue;
                    }
                    instance.label(FROM).map(str::to_owned)
                }
                Err(error) if error.is_missing() => continue,
                Err(_) => {
                    is_whole = false;
                    None
                }
            };
            let outage = self.loss(id, label, members);
            lost.extend(outage.map(|outage| (id, outage)));
        }
        for (id, outage) in &lost {
            tracing::warn!(computer = %id, host = outage.host, "its host was removed, and it has a replica");
        }
        let mut seen = self.seen();
        seen.lost = lost;
        seen.knows_lost = Some(is_whole);
        Ok(())
    }

    /// The outage of a computer without a machine. `label` is its member, as its replica names it. `None` while that is
    /// a member: somebody removed only the machine.
    fn loss(
        &self,
        id: ComputerId,
        label: Option<String>,
        members: &BTreeMap<String, HostState>,
    ) -> Option<HostOutage> {
        let name = self.name(id);
        let seen = self.seen();
        let known = seen.lost.get(&id);
        let host = known.map(|known| known.host.clone()).or_else(|| seen.locations.get(&name).cloned());
        let host = host.or(label).filter(|host| !members.contains_key(host))?;
        let since = known.map(|known| known.since).or_else(|| seen.outages.get(&host).copied());
        Some(HostOutage { host, since: since.unwrap_or_else(clock::now), is_removed: true })
    }

    async fn look_at_instances(&self, looks: &mut LookState) -> EngineResult<()> {
        let is_whole = self.seen().outages.is_empty();
        // While a member does not answer, the list is slow, and tells nothing new.
        let is_due = looks.located.is_none_or(|located| is_whole && located.elapsed() >= LOCATION_INTERVAL);
        if is_due {
            self.list_names().await?;
            let before = self.seen().locations.clone();
            let instances = self.list_located("").await?;
            let located = instances.into_iter().map(|instance| (instance.name, instance.location));
            self.note_all(&before, located.collect());
            looks.located = Some(Instant::now());
        }
        self.fence(looks).await;
        Ok(())
    }

    /// Lists instances with their members. An instance of an offline member is listed without asking that member.
    async fn list_located(&self, filter: &str) -> EngineResult<Vec<LocatedInstance>> {
        let listed = self.client.get(&format!("/1.0/instances?recursion=1{filter}")).await;
        let listed = listed.map_err(|error| error.at(LOCATIONS))?;
        // An empty list is null in some answers.
        let instances: Option<Vec<LocatedInstance>> =
            serde_json::from_value(listed).map_err(|error| EngineError::failed(LOCATIONS, error))?;
        Ok(instances.unwrap_or_default())
    }

    /// Asks the cluster where an instance is, which may have been moved since it was noted.
    pub(super) async fn locate_again(&self, name: &str) -> EngineResult<()> {
        let instances = self.list_located(&format!("&filter=name%20eq%20{name}")).await?;
        if let Some(found) = instances.iter().find(|instance| instance.name == name) {
            self.note_location(name, &found.location);
        }
        Ok(())
    }

    /// Notes the members of all instances. What was noted since `before`, when the list began, is newer than the list.
    fn note_all(&self, before: &BTreeMap<String, String>, mut located: BTreeMap<String, String>) {
        let mut seen = self.seen();
        for (name, member) in &seen.locations {
            if before.get(name) != Some(member) {
                located.insert(name.clone(), member.clone());
            }
        }
        seen.locations = located;
    }

    /// Lists the names of all instances, which needs no member but one. Returns them.
    pub(super) async fn list_names(&self) -> EngineResult<Vec<String>> {
        let listed = self.ask("/1.0/instances").await.map_err(|error| error.at(NAMES))?;
        let paths: Vec<String> =
            serde_json::from_value(listed).map_err(|error| EngineError::failed(NAMES, error))?;
        let names = paths.iter().filter_map(|path| documents::name_of_path(path)).map(str::to_owned);
        let names: Vec<String> = names.collect();
        self.note_names(&names);
        Ok(names)
    }

    /// Notes the numbers of machines. They only grow: a list may be older than the begin from a replica that was noted.
    fn note_names(&self, names: &[String]) {
        let mut seen = self.seen();
        let known = seen.numbers.get_or_insert_default();
        for (id, number) in numbers(names) {
            let noted = known.entry(id).or_default();
            *noted = number.max(*noted);
        }
    }

    /// Lists the names once, before the first use of a machine.
    pub(super) async fn ensure_names(&self) -> EngineResult<()> {
        let is_known = self.seen().numbers.is_some();
        if is_known { Ok(()) } else { self.list_names().await.map(drop) }
    }

    /// How often a computer began from a replica.
    pub(super) fn number(&self, id: ComputerId) -> u32 {
        let seen = self.seen();
        seen.numbers.as_ref().and_then(|numbers| numbers.get(&id)).copied().unwrap_or_default()
    }

    /// Notes that the machine of a computer is the instance of this number.
    pub(super) fn note_number(&self, id: ComputerId, number: u32) {
        let mut seen = self.seen();
        seen.numbers.get_or_insert_default().insert(id, number);
        seen.lost.remove(&id);
    }

    /// Whether computers without a machine may have been lost with a removed member.
    pub(super) fn is_unsure_of_lost(&self) -> bool {
        self.seen().knows_lost == Some(false)
    }

    /// Forgets that a computer was lost with its member: it has no replica any more.
    pub(super) fn forget_lost(&self, id: ComputerId) {
        self.seen().lost.remove(&id);
    }

    /// Name of the instance that is a computer's machine.
    pub(super) fn name(&self, id: ComputerId) -> String {
        documents::name(id, self.number(id))
    }

    /// Path of the instance that is a computer's machine.
    pub(super) fn path(&self, id: ComputerId) -> String {
        documents::path_of(&self.name(id))
    }

    /// Notes the member of an instance.
    pub(super) fn note_location(&self, name: &str, member: &str) {
        let mut seen = self.seen();
        if seen.locations.get(name).is_none_or(|known| known != member) {
            seen.locations.insert(name.to_owned(), member.to_owned());
        }
    }

    /// Forgets the member of an instance that is not there.
    pub(super) fn forget_location(&self, name: &str) {
        self.seen().locations.remove(name);
    }

    /// The outage of the member of a computer's machine, or its removal from the cluster.
    pub(super) fn outage(&self, id: ComputerId) -> Option<HostOutage> {
        let name = self.name(id);
        let seen = self.seen();
        if let Some(lost) = seen.lost.get(&id) {
            return Some(lost.clone());
        }
        let member = seen.locations.get(&name)?;
        let since = *seen.outages.get(member)?;
        Some(HostOutage { host: member.clone(), since, is_removed: false })
    }

    /// Whether an instance was seen.
    pub(super) fn has(&self, name: &str) -> bool {
        self.seen().locations.contains_key(name)
    }

    /// Whether the member of an instance is known not to answer.
    pub(super) fn is_out(&self, name: &str) -> bool {
        let seen = self.seen();
        seen.locations.get(name).is_some_and(|member| seen.outages.contains_key(member))
    }

    /// The members that do not answer.
    pub(super) fn silent(&self) -> BTreeSet<String> {
        self.seen().outages.keys().cloned().collect()
    }

    /// The state of each member, and its number of instances.
    pub(super) fn members(&self) -> (BTreeMap<String, HostState>, BTreeMap<String, usize>) {
        let seen = self.seen();
        let mut instances = BTreeMap::new();
        for member in seen.locations.values() {
            *instances.entry(member.clone()).or_default() += 1;
        }
        (seen.members.clone(), instances)
    }

    /// What the cluster says of a member now; `None` where it has none of this name, and no computer was lost with one.
    pub(super) async fn state_now(&self, member: &str) -> EngineResult<Option<HostState>> {
        let members = self.list_members().await?;
        let Some(record) = members.iter().find(|record| record.server_name == member) else {
            let seen = self.seen();
            if seen.lost.values().any(|lost| lost.host == member) {
                return Ok(Some(HostState::Removed));
            }
            return match seen.knows_lost {
                Some(true) => Ok(None),
                Some(false) | None => Err(EngineError::failed(LIST, UNSURE)),
            };
        };
        let is_offline = record.is_offline();
        let answered = if is_offline { None } else { Some(self.answers(member).await) };
        Ok(Some(HostState::of(is_offline, answered)))
    }

    /// Stops superseded instances of members that answer, and labels them. They stay until their computer is removed.
    async fn fence(&self, looks: &mut LookState) {
        let superseded = self.superseded();
        looks.fenced.retain(|name| superseded.contains(name) && !self.is_out(name));
        for name in superseded {
            if looks.fenced.contains(&name) || self.is_out(&name) {
                continue;
            }
            match self.fence_instance(&name).await {
                Ok(()) => {
                    looks.fenced.insert(name);
                }
                Err(error) => tracing::warn!(
                    instance = name,
                    error = format_args!("{error:#}"),
                    "could not stop an instance whose computer began from a replica; it is retried"
                ),
            }
        }
    }

    /// Instances of computers that have another machine since.
    fn superseded(&self) -> BTreeSet<String> {
        let seen = self.seen();
        let numbers = seen.numbers.iter().flatten();
        numbers
            .flat_map(|(id, number)| (0..*number).map(move |earlier| documents::name(*id, earlier)))
            .filter(|name| seen.locations.contains_key(name))
            .collect()
    }

    async fn fence_instance(&self, name: &str) -> EngineResult<()> {
        const STEP: &str = "stop a superseded instance";
        let path = documents::path_of(name);
        let found = match self.client.get(&path).await {
            Ok(found) => found,
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return Err(error.at(STEP)),
        };
        let instance: Instance =
            serde_json::from_value(found).map_err(|error| EngineError::failed(STEP, error))?;
        if instance.label(OWNER) != Some(self.owner.as_str()) {
            return Ok(());
        }
        if instance.power() != Power::Stopped {
            tracing::warn!(
                instance = name,
                "an instance runs whose computer began from a replica; it is stopped"
            );
            let request = json!({ "action": "stop", "timeout": -1, "force": true });
            let state = format!("{path}/state");
            let stopped = self.client.run(Method::PUT, &state, Some(&request), FENCE_TIMEOUT).await;
            stopped.map_err(|error| error.at(STEP))?;
        }
        if instance.label(FENCED).is_none() {
            let change = documents::fence(&instance, &clock::now().iso8601());
            self.client.patch(&path, &change, None).await.map_err(|error| error.at(STEP))?;
        }
        Ok(())
    }
}

/// How often computers began from a replica, of those that did. A replica has the next number, also when the machine was lost.
fn numbers(names: &[String]) -> BTreeMap<ComputerId, u32> {
    let mut numbers = BTreeMap::new();
    let number_of = |name: &String| {
        let replica = || documents::replica_of(name).map(|(id, number)| (id, number.saturating_sub(1)));
        documents::machine_of(name).or_else(replica)
    };
    for (id, number) in names.iter().filter_map(number_of) {
        if number > 0 {
            let known: &mut u32 = numbers.entry(id).or_default();
            *known = number.max(*known);
        }
    }
    numbers
}

/// Computers that have a replica, whose name is returned, but no machine with the number before.
fn replicas_without_machine(names: &[String]) -> Vec<(ComputerId, String)> {
    let machines: BTreeMap<ComputerId, u32> = names.iter().fold(BTreeMap::new(), |mut machines, name| {
        if let Some((id, number)) = documents::machine_of(name) {
            let known = machines.entry(id).or_insert(number);
            *known = number.max(*known);
        }
        machines
    });
    let alone = names.iter().filter_map(|name| {
        let (id, number) = documents::replica_of(name)?;
        let is_alone = machines.get(&id).is_none_or(|machine| machine.saturating_add(1) < number);
        is_alone.then(|| (id, name.clone()))
    });
    alone.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incus::settings::IncusSettings;

    fn cluster() -> Cluster {
        let settings = IncusSettings { url: "/nowhere/unix.socket".to_owned(), ..IncusSettings::default() };
        Cluster::new(Client::open(&settings).unwrap(), "own".to_owned())
    }

    #[test]
    fn the_machine_is_the_instance_with_the_highest_number() {
        let (early, late) = (ComputerId::random(), ComputerId::random());
        let names = [
            documents::name(early, 0),
            documents::name(late, 2),
            documents::name(late, 0),
            documents::name(late, 1),
            documents::replica_name(late, 3),
            "web".to_owned(),
        ];
        assert_eq!(numbers(&names), BTreeMap::from([(late, 2)]));
        // The same without the machine, which was lost with its member.
        let lost = [documents::name(early, 0), documents::name(late, 0), documents::replica_name(late, 3)];
        assert_eq!(numbers(&lost), BTreeMap::from([(late, 2)]));
        let cluster = cluster();
        cluster.note_number(late, 2);
        for number in 0..=2 {
            cluster.note_location(&documents::name(late, number), "m1");
        }
        cluster.note_location(&documents::name(early, 0), "m1");
        assert_eq!(cluster.name(late), documents::name(late, 2));
        assert_eq!(cluster.name(early), documents::name(early, 0));
        let superseded = BTreeSet::from([documents::name(late, 0), documents::name(late, 1)]);
        assert_eq!(cluster.superseded(), superseded);
    }

    #[test]
    fn a_late_list_hides_nothing_that_was_noted_since_it_began() {
        let (cluster, id) = (cluster(), ComputerId::random());
        let [former, present] = [0, 1].map(|number| documents::name(id, number));
        cluster.note_names(std::slice::from_ref(&former));
        cluster.note_location(&former, "m1");
        let before = cluster.seen().locations.clone();
        // Both lists began before these, and end after them.
        cluster.note_number(id, 1);
        cluster.note_location(&present, "m2");
        cluster.note_location(&former, "m3");
        cluster.note_names(std::slice::from_ref(&former));
        cluster.note_all(&before, BTreeMap::from([(former.clone(), "m1".to_owned())]));
        assert_eq!(cluster.name(id), present);
        let expected = [(former, "m3"), (present, "m2")].map(|(name, member)| (name, member.to_owned()));
        assert_eq!(cluster.seen().locations, BTreeMap::from(expected));
        // Nothing was noted since, so the list counts.
        let before = cluster.seen().locations.clone();
        cluster.note_all(&before, BTreeMap::new());
        assert_eq!(cluster.seen().locations, BTreeMap::new());
    }

    #[test]
    fn an_outage_is_that_of_the_member_of_the_machine() {
        let (cluster, id) = (cluster(), ComputerId::random());
        let states = |second| -> BTreeMap<String, HostState> {
            [("m1", HostState::Online), ("m2", second)].map(|(name, state)| (name.to_owned(), state)).into()
        };
        cluster.note_location(&documents::name(id, 0), "m2");
        cluster.note_states(states(HostState::Online));
        assert_eq!(cluster.outage(id), None);
        cluster.note_states(states(HostState::Silent));
        let outage = cluster.outage(id).unwrap();
        assert_eq!(outage.host, "m2");
        cluster.note_states(states(HostState::Offline));
        assert_eq!(cluster.outage(id), Some(outage), "it has lasted since the first look");
        // It begins from its replica on another member.
        cluster.note_number(id, 1);
        cluster.note_location(&documents::name(id, 1), "m1");
        assert_eq!(cluster.outage(id), None);
        assert!(cluster.is_out(&documents::name(id, 0)));
        assert_eq!(cluster.members().1, BTreeMap::from([("m1".to_owned(), 1), ("m2".to_owned(), 1)]));
    }

    #[test]
    fn a_computer_is_lost_when_only_its_replica_is_left() {
        let id = ComputerId::random();
        let (machine, replica) = (documents::name, documents::replica_name);
        for (names, expected) in [
            (vec![machine(id, 0), replica(id, 1)], None),
            (vec![machine(id, 1), replica(id, 2)], None),
            (vec![machine(id, 0)], None),
            (vec![replica(id, 1)], Some(1)),
            // The superseded one is on another member.
            (vec![machine(id, 0), replica(id, 2)], Some(2)),
            // An old replica is superseded, too.
            (vec![machine(id, 2), replica(id, 1)], None),
        ] {
            let expected: Vec<_> = expected.map(|number| (id, replica(id, number))).into_iter().collect();
            assert_eq!(replicas_without_machine(&names), expected, "{names:?}");
        }
    }

    #[test]
    fn a_removed_member_is_out_as_long_as_a_computer_was_lost_with_it() {
        let (cluster, id, other) = (cluster(), ComputerId::random(), ComputerId::random());
        let members = |names: &[&str]| -> BTreeMap<String, HostState> {
            names.iter().map(|name| ((*name).to_owned(), HostState::Online)).collect()
        };
        let label = Some("m2".to_owned());
        assert_eq!(cluster.loss(id, label.clone(), &members(&["m1", "m2"])), None);
        assert_eq!(cluster.loss(id, None, &members(&["m1"])), None, "nobody knows where it was");
        let loss = cluster.loss(id, label, &members(&["m1"])).unwrap();
        assert!(loss.is_removed && loss.host == "m2", "{loss:?}");
        cluster.seen().lost.insert(id, loss.clone());
        cluster.note_states(members(&["m1"]));
        assert_eq!(cluster.outage(id), Some(loss.clone()));
        assert_eq!(cluster.loss(id, None, &members(&["m1"])), Some(loss), "it has lasted since then");
        // It moved after the last refresh.
        cluster.note_location(&documents::name(other, 0), "m3");
        let loss = cluster.loss(other, Some("m1".to_owned()), &members(&["m1"])).unwrap();
        assert_eq!(loss.host, "m3");
        cluster.note_number(id, 1);
        assert_eq!(cluster.outage(id), None);
    }

    #[tokio::test]
    async fn without_an_answer_nothing_is_known() {
        let cluster = cluster();
        cluster.look().await;
        assert!(cluster.ensure_names().await.is_err());
        assert!(cluster.state_now("m1").await.is_err());
        assert_eq!(cluster.outage(ComputerId::random()), None);
    }
}
