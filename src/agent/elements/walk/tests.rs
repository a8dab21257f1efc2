//! Tests of the walk over a fake tree.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use atspi::{Role, State, StateSet};

use super::*;
use crate::elements::bus::object::{Interfaces, Object};
use crate::elements::walk::tree::IN_FLIGHT;

/// A tree of names; `slow` and `silent` name nodes that answer late or never.
#[derive(Default)]
struct Fake {
    below: HashMap<String, Vec<&'static str>>,
    hidden: Vec<&'static str>,
    slow: Vec<&'static str>,
    silent: Vec<&'static str>,
    gone: Vec<&'static str>,
    more: bool,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
}

impl Fake {
    fn of(pairs: &[(&str, &[&'static str])]) -> Self {
        let below = pairs.iter().map(|(name, children)| ((*name).to_owned(), children.to_vec())).collect();
        Self { below, ..Self::default() }
    }

    fn node(&self, name: &str) -> Arc<Node> {
        let states = if self.hidden.contains(&name) { StateSet::empty() } else { State::Showing.into() };
        Arc::new(Node {
            object: Object { name: String::from(":1.1"), path: name.to_owned() },
            role: Role::Panel,
            name: name.to_owned(),
            description: String::new(),
            states,
            interfaces: Interfaces { component: true, ..Interfaces::default() },
            children: self.below.get(name).map_or(0, |children| children.len() as i32),
        })
    }

    async fn answer(&self, name: &str) -> Result<(), BusFault> {
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_in_flight.fetch_max(now, Ordering::Relaxed);
        tokio::task::yield_now().await;
        if self.slow.contains(&name) {
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        match name {
            name if self.silent.contains(&name) => Err(BusFault::Silent),
            name if self.gone.contains(&name) => Err(BusFault::Gone),
            _ => Ok(()),
        }
    }
}

impl Tree for Fake {
    async fn children(&self, node: &Node) -> Result<(Vec<Arc<Node>>, bool), BusFault> {
        self.answer(&node.name).await?;
        let names = self.below.get(&node.name).cloned().unwrap_or_default();
        Ok((names.into_iter().map(|name| self.node(name)).collect(), self.more))
    }

    async fn area(&self, node: &Node) -> Result<Option<Area>, BusFault> {
        self.answer(&node.name).await?;
        Ok(Some(Area { x: 1, y: 2, width: 3, height: 4 }))
    }
}

fn limits() -> WalkLimits {
    WalkLimits { nodes: 100, depth: 10, until: Instant::now() + Duration::from_secs(60), hidden: false }
}

async fn names(fake: &Fake, limits: WalkLimits) -> (Vec<String>, WalkResult) {
    let walked = walk(fake, fake.node("window"), limits).await;
    (walked.found.iter().map(|found| found.node.name.clone()).collect(), walked)
}

fn sample_tree() -> Fake {
    Fake::of(&[("window", &["a", "b"]), ("a", &["a1", "a2"]), ("b", &["b1"]), ("a2", &["deep"])])
}

#[tokio::test]
async fn nodes_come_level_by_level_each_after_its_parent() {
    let (seen, walked) = names(&sample_tree(), limits()).await;
    assert_eq!(seen, ["window", "a", "b", "a1", "a2", "b1", "deep"]);
    let parents: Vec<_> = walked.found.iter().map(|found| found.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(4)]);
    assert!(walked.stop.is_none() && walked.fault.is_none());
    assert!(walked.found.iter().all(|found| found.area.is_some()));
}

#[tokio::test]
async fn every_limit_stops_the_walk_with_its_reason() {
    for (nodes, depth, wanted, stop) in [
        (100, 10, 7, None),
        (7, 10, 7, None),
        (6, 10, 6, Some(StopReason::Nodes)),
        (1, 10, 1, Some(StopReason::Nodes)),
        (0, 10, 0, Some(StopReason::Nodes)),
        (100, 3, 7, None),
        (100, 2, 6, Some(StopReason::Depth)),
        (100, 0, 1, Some(StopReason::Depth)),
    ] {
        let (seen, walked) = names(&sample_tree(), WalkLimits { nodes, depth, ..limits() }).await;
        assert_eq!((seen.len(), walked.stop), (wanted, stop), "{nodes} nodes, depth {depth}");
    }
    let long = Fake { more: true, ..sample_tree() };
    assert_eq!(names(&long, limits()).await.1.stop, Some(StopReason::Children));
}

#[tokio::test]
async fn a_walk_ends_at_its_deadline_with_the_nodes_so_far() {
    let fake = Fake { slow: vec!["b"], ..sample_tree() };
    let began = Instant::now();
    let until = began + Duration::from_millis(50);
    let (seen, walked) = names(&fake, WalkLimits { until, ..limits() }).await;
    assert_eq!(seen, ["window", "a", "b", "a1", "a2"]);
    assert_eq!(walked.stop, Some(StopReason::Time));
    // Areas were fetched all the same, up to the node that hangs.
    assert!(walked.found[0].area.is_some());
}

#[tokio::test]
async fn a_silent_program_ends_the_walk_and_a_vanished_node_does_not() {
    let fake = Fake { silent: vec!["b"], ..sample_tree() };
    let (seen, walked) = names(&fake, limits()).await;
    assert_eq!(seen, ["window", "a", "b", "a1", "a2"]);
    assert!(matches!(walked.fault, Some(BusFault::Silent)) && walked.stop.is_none());
    let fake = Fake { gone: vec!["a"], ..sample_tree() };
    let walked = walk(&fake, fake.node("window"), limits()).await;
    let seen: Vec<&str> = walked.found.iter().map(|found| found.node.name.as_str()).collect();
    assert_eq!(seen, ["window", "a", "b", "b1"]);
}

#[tokio::test]
async fn descendants_of_hidden_nodes_are_walked_only_on_request() {
    let fake = Fake { hidden: vec!["a"], ..sample_tree() };
    let (seen, walked) = names(&fake, limits()).await;
    assert_eq!((seen.join(" ").as_str(), walked.seen), ("window b b1", 4));
    let few = WalkLimits { nodes: 3, ..limits() };
    assert_eq!(names(&fake, few).await.1.stop, None, "hidden nodes do not count");
    let (seen, _) = names(&fake, WalkLimits { hidden: true, ..limits() }).await;
    assert_eq!(seen.len(), 7);
}

#[tokio::test]
async fn calls_are_concurrent_up_to_the_limit() {
    let names: Vec<&'static str> = (0..200).map(|n| &*Box::leak(format!("n{n}").into_boxed_str())).collect();
    let mut fake = Fake::of(&[("window", &names)]);
    for name in &names {
        fake.below.insert((*name).to_owned(), vec!["leaf"]);
    }
    let walked = walk(&fake, fake.node("window"), WalkLimits { nodes: 1000, ..limits() }).await;
    assert_eq!(walked.found.len(), 401);
    assert_eq!(fake.most_in_flight.load(Ordering::Relaxed), IN_FLIGHT);
}
