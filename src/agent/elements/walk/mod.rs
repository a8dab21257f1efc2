//! Breadth-first walk over a window's nodes, with limits on nodes, depth and time.

pub(super) mod tree;
pub(super) mod visible_rows;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use crate::elements::bus::BusFault;
use crate::elements::bus::object::{Area, Node};
use crate::elements::walk::tree::{Tree, run_concurrently};

/// Limits of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkLimits {
    /// Most nodes.
    pub(super) nodes: usize,
    /// Deepest level; the window is level 0.
    pub(super) depth: usize,
    /// Deadline.
    pub(super) until: Instant,
    /// Whether nodes that are not shown are walked as well.
    pub(super) hidden: bool,
}

/// Reason for which a walk is incomplete; later variants have priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StopReason {
    /// A node had more children than are read.
    Children,
    /// A node at the deepest level has children.
    Depth,
    /// The limit of nodes was reached.
    Nodes,
    /// The deadline passed.
    Time,
}

impl StopReason {
    /// Value of `reason` in the answer.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Children => "children",
            Self::Depth => "max_depth",
            Self::Nodes => "max_nodes",
            Self::Time => "timeout",
        }
    }
}

/// A node of a walk.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WalkedNode {
    pub(super) node: Arc<Node>,
    /// Index of its parent in the result.
    pub(super) parent: Option<usize>,
    /// Area on the screen.
    pub(super) area: Option<Area>,
}

/// Result of a walk.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// Nodes in breadth-first order, each after its parent.
    pub(super) found: Vec<WalkedNode>,
    /// Number of nodes that were read.
    pub(super) seen: usize,
    /// The reason with the highest priority for which nodes are missing.
    pub(super) stop: Option<StopReason>,
    /// Failure that ended the walk.
    pub(super) fault: Option<BusFault>,
}

impl WalkResult {
    fn stopped(&mut self, why: StopReason) {
        self.stop = self.stop.max(Some(why));
    }
}

/// Walks one window.
pub(super) async fn walk(tree: &impl Tree, window: Arc<Node>, limits: WalkLimits) -> WalkResult {
    let mut walked = WalkResult::default();
    if limits.nodes == 0 {
        walked.stopped(StopReason::Nodes);
        return walked;
    }
    walked.seen = 1;
    walked.found.push(WalkedNode { node: window, parent: None, area: None });
    let mut level = 0..1;
    for depth in 0.. {
        let parents: Vec<usize> =
            level.clone().filter(|at| may_have_children(&walked.found[*at].node, limits)).collect();
        if parents.is_empty() {
            break;
        }
        if depth == limits.depth {
            walked.stopped(StopReason::Depth);
            break;
        }
        let nodes: Vec<Arc<Node>> = parents.iter().map(|at| Arc::clone(&walked.found[*at].node)).collect();
        let mut answers = run_concurrently(nodes.iter().map(|node| tree.children(node)));
        for parent in parents {
            let answer = timeout_at(limits.until, answers.next()).await;
            let (mut children, more) = match answer {
                Err(_) => {
                    walked.stopped(StopReason::Time);
                    break;
                }
                Ok(Some(Ok(children))) => children,
                // A vanished node does not end the walk.
                Ok(None | Some(Err(BusFault::Gone | BusFault::Unknown | BusFault::Refused(_)))) => continue,
                Ok(Some(Err(fault @ (BusFault::Silent | BusFault::Lost(_))))) => {
                    walked.fault = Some(fault);
                    break;
                }
            };
            if more {
                walked.stopped(StopReason::Children);
            }
            walked.seen += children.len();
            if !limits.hidden {
                // Neither the hidden child nor its descendants are listed.
                children.retain(|child| child.is_showing());
            }
            let remaining = limits.nodes - walked.found.len();
            if children.len() > remaining {
                walked.stopped(StopReason::Nodes);
            }
            let new = children.into_iter().take(remaining);
            walked.found.extend(new.map(|node| WalkedNode { node, parent: Some(parent), area: None }));
        }
        let over =
            matches!(walked.stop, Some(StopReason::Nodes | StopReason::Time)) || walked.fault.is_some();
        level = level.end..walked.found.len();
        if over {
            break;
        }
    }
    if walked.fault.is_none() {
        fetch_areas(tree, &mut walked, limits).await;
    }
    walked
}

fn may_have_children(node: &Node, limits: WalkLimits) -> bool {
    node.children != 0 && (limits.hidden || node.is_showing())
}

/// Fetches the areas of the nodes.
async fn fetch_areas(tree: &impl Tree, walked: &mut WalkResult, limits: WalkLimits) {
    let wanted =
        |found: &WalkedNode| found.node.interfaces.component && (limits.hidden || found.node.is_showing());
    let places: Vec<usize> = (0..walked.found.len()).filter(|at| wanted(&walked.found[*at])).collect();
    let nodes: Vec<Arc<Node>> = places.iter().map(|at| Arc::clone(&walked.found[*at].node)).collect();
    let mut answers = run_concurrently(nodes.iter().map(|node| tree.area(node)));
    // A minimum time, because nodes without an area are of little use.
    let until = limits.until.max(Instant::now() + MIN_AREA_TIME);
    for at in places {
        match timeout_at(until, answers.next()).await {
            Ok(Some(Ok(area))) => walked.found[at].area = area,
            Ok(Some(Err(fault))) => {
                walked.fault = Some(fault);
                return;
            }
            Ok(None) => return,
            Err(_) => {
                walked.stopped(StopReason::Time);
                return;
            }
        }
    }
}

/// Minimum time for fetching areas, also when the walk took all its time.
const MIN_AREA_TIME: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
