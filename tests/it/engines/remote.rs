//! Engine behind the host helper: conformance over a real socket, and what the helper refuses.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hotdesk::base::ids::{ComputerId, LayerId};
use hotdesk::base::tasks::Tasks;
use hotdesk::base::wait;
use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::engine::remote::{self, RemoteEngine};
use hotdesk::engine::simulated::{Failure, Fault, SimulatedEngine, Verb};
use hotdesk::engine::{
    AgentClient, Capabilities, Engine, EngineError, MAX_LAYERS, MachineSpec, Observation, Offer, Offers,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use uuid::Uuid;

use super::conformance::{END_TIMEOUT, EngineFixture, boot, conformance_tests, machine_spec};
use super::simulated::SimulatedFixture;

/// Time that a helper's tasks get to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A helper with the simulated engine, and a controller's engine that calls it.
struct RemoteFixture {
    inner: SimulatedFixture,
    /// The engine inside the helper, for planned faults.
    helper: Arc<SimulatedEngine>,
    folder: tempfile::TempDir,
    tasks: Tasks,
}

impl RemoteFixture {
    fn new() -> Self {
        Self::for_user(own_user())
    }

    fn for_user(client: AgentClient) -> Self {
        Self::offering(client, None)
    }

    /// With these offers; `None` is one.
    fn offering(client: AgentClient, offers: Option<Offers>) -> Self {
        let (inner, folder) = (SimulatedFixture::new(), tempfile::tempdir().expect("a folder"));
        let host = Arc::clone(&inner.host);
        let helper = Arc::new(match offers {
            Some(offers) => SimulatedEngine::offering(host, offers),
            None => SimulatedEngine::open(host),
        });
        let fixture = Self { inner, helper, folder, tasks: Tasks::new() };
        fixture.start(client, &fixture.tasks);
        fixture
    }

    fn start(&self, client: AgentClient, tasks: &Tasks) {
        // A foreign user cannot own the socket where the tests do not run as root.
        let listener = remote::listen(&self.socket(), own_user()).expect("a socket");
        let engine: Arc<dyn Engine> = self.helper.clone();
        let _serving = tasks.spawn("helper", remote::serve(listener, engine, client, tasks.clone()));
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("host.sock")
    }

    async fn connect(&self) -> Arc<dyn Engine> {
        Arc::new(RemoteEngine::connect(self.socket()).await.expect("the helper answers"))
    }

    /// Sends a frame with these lengths and bytes; returns the text of the reply, or `None` after a close.
    async fn send(&self, lengths: [u32; 2], bytes: &[u8]) -> Option<Value> {
        let mut stream = UnixStream::connect(self.socket()).await.expect("a connection");
        let frame = [&lengths[0].to_be_bytes()[..], &lengths[1].to_be_bytes()[..], bytes].concat();
        // The helper may close before it has read everything.
        let _sent = stream.write_all(&frame).await;
        let text = stream.read_u32().await.ok()?;
        stream.read_u32().await.ok()?;
        let mut reply = vec![0; text as usize];
        stream.read_exact(&mut reply).await.ok()?;
        Some(serde_json::from_slice(&reply).expect("JSON"))
    }

    /// Sends a call as a controller would.
    async fn request(&self, call: Value) -> Option<Value> {
        let text = json!({"version": 7, "session": uuid::Uuid::nil(), "call": call}).to_string();
        self.send([u32::try_from(text.len()).expect("short"), 0], text.as_bytes()).await
    }
}

/// The user of this process.
pub fn own_user() -> AgentClient {
    let own = std::fs::metadata("/proc/self").expect("this process");
    AgentClient { uid: own.uid(), gid: own.gid() }
}

impl EngineFixture for RemoteFixture {
    fn engine(&self) -> Arc<dyn Engine> {
        self.reopen()
    }

    fn reopen(&self) -> Arc<dyn Engine> {
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(self.connect()))
    }

    fn expect_removed(&self, id: ComputerId) {
        self.inner.expect_removed(id);
    }
}

conformance_tests!(Some(RemoteFixture::new()));
conformance_tests!(Some(RemoteFixture::new());
    a_copy_goes_its_own_way,
    what_is_not_there_is_not_copied,
    a_rollback_brings_back_what_a_snapshot_kept,
);

fn refusal(reply: Option<Value>) -> String {
    let reply = reply.expect("an answer");
    reply["failure"]["step"]["detail"].as_str().unwrap_or_else(|| panic!("no refusal: {reply}")).to_owned()
}

#[tokio::test]
async fn d15_another_user_gets_no_answer() {
    let own = own_user();
    let fixture = RemoteFixture::for_user(AgentClient { uid: own.uid + 1, gid: own.gid });
    assert_eq!(fixture.request(json!({"list": {}})).await, None);
}

#[tokio::test]
async fn d15_malformed_and_oversized_frames_are_refused_and_the_helper_goes_on() {
    let fixture = RemoteFixture::new();
    for (lengths, bytes) in [
        ([u32::MAX, 0], &b"{}"[..]),
        ([2, u32::MAX], b"{}"),
        ([256 * 1024 + 1, 0], b""),
        ([3, 0], b"{]}"),
        ([2, 0], b"{}"),
        ([4, 0], b"\xff\xff\xff\xff"),
    ] {
        refusal(fixture.send(lengths, bytes).await);
    }
    for call in [
        json!({"run": {"command": "id"}}),
        json!({"list": {"path": "/etc"}}),
        json!({"observe": {"id": "../../etc"}}),
        json!({"stop": {"id": uuid::Uuid::nil(), "grace_ms": u64::MAX}}),
        json!({"create": {"spec": {"id": uuid::Uuid::nil(), "isolation": "sandbox", "cpu": -1.0, "memory_bytes": 1, "disk_bytes": 1, "bandwidth_mbps": 0, "layers": []}}}),
    ] {
        refusal(fixture.request(call).await);
    }
    let wrong = json!({"version": 8, "session": uuid::Uuid::nil(), "call": {"list": {}}}).to_string();
    let wrong = fixture.send([u32::try_from(wrong.len()).expect("short"), 0], wrong.as_bytes()).await;
    assert!(refusal(wrong).contains("restart controller and helper"));
    let unknown = json!({"observe": {"id": uuid::Uuid::new_v4()}});
    assert_eq!(fixture.request(unknown).await.expect("an answer"), json!({"observation": "absent"}));
    assert_eq!(fixture.request(json!({"list": {}})).await.expect("an answer"), json!({"machines": []}));
}

#[tokio::test]
async fn checks_and_leftovers_of_the_host_are_those_that_the_helper_sees() {
    let fixture = RemoteFixture::new();
    let engine = fixture.connect().await;
    for thorough in [false, true] {
        let found = engine.check_host(thorough).await.expect("checked");
        assert_eq!(found, fixture.helper.check_host(thorough).await.expect("checked"));
        assert_eq!((found.len(), found[0].left_out.is_empty()), (1, thorough));
    }
    let (own, left) = (machine_spec(), machine_spec());
    for spec in [&own, &left] {
        engine.create(spec).await.expect("created");
    }
    let found = engine.find_leftovers(&BTreeSet::from([own.id])).await.expect("looked");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].location.contains(&left.id.to_string()), "{found:?}");
    let all = BTreeSet::from([own.id, left.id]);
    assert!(engine.find_leftovers(&all).await.expect("looked").is_empty());
}

#[tokio::test]
async fn d15_a_helper_serves_the_isolations_that_it_offers_and_no_other() {
    let offer = |isolation| Offer { isolation, engine: "simulated", capabilities: Capabilities::ALL };
    let offers = Offers::several(vec![offer(Isolation::Shared), offer(Isolation::Sandbox)]);
    let offers = offers.expect("two isolations");
    let fixture = RemoteFixture::offering(own_user(), Some(offers.clone()));
    let engine = fixture.connect().await;
    assert_eq!(*engine.offers(), offers);
    let spec = machine_spec();
    for isolation in offers.isolations() {
        let spec = MachineSpec { id: ComputerId::random(), isolation, ..spec.clone() };
        engine.create(&spec).await.expect("created");
        assert_eq!(fixture.inner.host.isolation(spec.id), Some(isolation));
    }
    let refused = engine.create(&MachineSpec { isolation: Isolation::Vm, ..spec.clone() }).await;
    let refused = format!("{:#}", refused.expect_err("it is not offered"));
    assert!(refused.contains("this host offers shared, sandbox"), "{refused}");
    for isolation in ["vm", "", "../runc", "Shared"] {
        let spec = json!({"id": spec.id.0, "isolation": isolation, "cpu": 1.0, "memory_bytes": 1, "disk_bytes": 1, "bandwidth_mbps": 0, "layers": []});
        refusal(fixture.request(json!({"create": {"spec": spec}})).await);
    }
    assert_eq!(engine.list().await.expect("a list").len(), 2);
}

#[tokio::test]
async fn d15_only_files_of_the_saved_state_are_read() {
    let fixture = RemoteFixture::new();
    let (engine, spec) = (fixture.connect().await, machine_spec());
    engine.create(&spec).await.expect("created");
    engine.start(&spec, &boot(1)).await.expect("started");
    engine.suspend(spec.id).await.expect("suspended");
    let files = engine.saved_state(spec.id).await.expect("a state").expect("saved").files;
    engine.read_saved(spec.id, &files[0].name, 0, 4096).await.expect("a file of the state");
    for name in ["/etc/passwd", "../../etc/passwd", "disk/../away", "away", "lock", ""] {
        let refused = engine.read_saved(spec.id, name, 0, 4096).await.expect_err(name);
        assert!(format!("{refused:#}").contains("accept a request"), "{refused:#}");
    }
    engine.evict(spec.id).await.expect("evicted");
    let mut file = files[0].clone();
    file.name = "../../../etc/cron.d/x".to_owned();
    let refused = engine.write_saved(spec.id, &file, Default::default()).await.expect_err("a path");
    assert!(format!("{refused:#}").contains("accept a request"), "{refused:#}");
}

#[tokio::test]
async fn d15_a_list_of_programs_has_bounds() {
    let fixture = RemoteFixture::new();
    let (engine, layer) = (fixture.connect().await, LayerId::random());
    // As long as in a request whose text it would not fit.
    let written = engine.keep_programs(&"x".repeat(1 << 20), &[], layer).await.expect("a layer");
    assert_eq!((written, engine.layers().await.expect("a list")), (Some(1 << 20), vec![layer]));
    let other = LayerId::random();
    let long = engine.keep_programs(&"x".repeat((4 << 20) + 1), &[], other).await.expect("an answer");
    assert_eq!((long, engine.layers().await.expect("a list")), (None, vec![layer]));
    let below = vec![Uuid::nil(); MAX_LAYERS + 1];
    refusal(fixture.request(json!({"keep_programs": {"below": below, "layer": other.0}})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn d15_the_next_controller_waits_for_the_call_of_a_dead_one() {
    let fixture = RemoteFixture::new();
    let (engine, spec) = (fixture.connect().await, machine_spec());
    engine.create(&spec).await.expect("created");
    let slow = Failure::Delay(Duration::from_secs(2));
    fixture.helper.plan(Fault { verb: Verb::Start, call: 1, failure: slow });
    // The caller is gone before the answer, as a killed controller is.
    let boot = boot(1);
    let begun = tokio::select! {
        early = engine.start(&spec, &boot) => panic!("the start takes longer: {early:?}"),
        begun = wait::until(END_TIMEOUT, || async {
            (fixture.helper.calls(Verb::Start) == 1).then_some(())
        }) => begun,
    };
    begun.expect("the helper is called");
    let next = fixture.connect().await;
    let seen = next.observe(spec.id).await.expect("an observation");
    assert!(matches!(seen, Observation::Running { generation: 1, .. }), "{seen:?}");
    next.destroy(spec.id).await.expect("destroyed");
}

#[tokio::test(flavor = "multi_thread")]
async fn d15_a_waiter_outlives_its_helper_and_errors_arrive_as_they_were() {
    let fixture = RemoteFixture::new();
    let (engine, spec) = (fixture.connect().await, machine_spec());
    engine.create(&spec).await.expect("created");
    engine.start(&spec, &boot(1)).await.expect("started");
    let waiting = {
        let engine = Arc::clone(&engine);
        fixture.tasks.spawn("waiter", async move { engine.wait_stopped(spec.id).await })
    };
    let next = Tasks::new();
    let stop = fixture.tasks.stopping();
    stop.cancel();
    fixture.start(own_user(), &next);
    engine.observe(spec.id).await.expect("the next helper answers");
    assert!(!waiting.is_finished(), "the machine runs");
    fixture.inner.host.crash(spec.id);
    let ended = tokio::time::timeout(END_TIMEOUT, waiting).await.expect("the waiter learns of the end");
    ended.expect("no panic").expect("no panic").expect("no error");

    let planned = EngineError::Unsupported("on purpose");
    fixture.helper.plan(Fault { verb: Verb::Suspend, call: 1, failure: Failure::Before(planned) });
    let refused = engine.suspend(spec.id).await.expect_err("planned");
    assert!(matches!(refused, EngineError::Unsupported("on purpose")), "{refused:#}");
    assert_eq!(next.drain(DRAIN_TIMEOUT).await, Vec::<&str>::new());
}
