//! Which nodes of a window are looked at, in which order, and when does it stop? Level by level, within bounds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use super::bus::Fault;
use super::object::{Area, Node};
use super::tree::{Tree, together};

/// What bounds a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most nodes to keep.
    pub(super) nodes: usize,
    /// Deepest level; the window's own is 0.
    pub(super) depth: usize,
    /// When it ends at the latest.
    pub(super) until: Instant,
    /// Whether what is not shown is looked at as well.
    pub(super) hidden: bool,
}

/// Why a walk did not see everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// A list was longer than is looked at.
    Children,
    /// A node at the deepest level had children.
    Depth,
    /// As many nodes as allowed were seen, or found.
    Nodes,
    /// The time was over.
    Time,
}

impl Stop {
    /// The wire's word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Children => "children",
            Self::Depth => "max_depth",
            Self::Nodes => "max_nodes",
            Self::Time => "timeout",
        }
    }
}

/// A node that was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) node: Arc<Node>,
    /// Place of its parent among what was found.
    pub(super) parent: Option<usize>,
    /// Where it is on the screen.
    pub(super) area: Option<Area>,
}

/// What a walk brought.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Each after its parent, level by level.
    pub(super) found: Vec<Found>,
    /// How many nodes were looked at.
    pub(super) seen: usize,
    /// The worst reason for what is missing.
    pub(super) stop: Option<Stop>,
    /// Why the program could not be read to the end.
    pub(super) fault: Option<Fault>,
}

impl Walked {
    fn stopped(&mut self, why: Stop) {
        self.stop = self.stop.max(Some(why));
    }
}

/// Walks one window.
pub(super) async fn walk(tree: &impl Tree, window: Arc<Node>, bounds: Bounds) -> Walked {
    let mut walked = Walked::default();
    if bounds.nodes == 0 {
        walked.stopped(Stop::Nodes);
        return walked;
    }
    walked.seen = 1;
    walked.found.push(Found { node: window, parent: None, area: None });
    let mut level = 0..1;
    for depth in 0.. {
        let parents: Vec<usize> =
            level.clone().filter(|at| may_have_children(&walked.found[*at].node, bounds)).collect();
        if parents.is_empty() {
            break;
        }
        if depth == bounds.depth {
            walked.stopped(Stop::Depth);
            break;
        }
        let nodes: Vec<Arc<Node>> = parents.iter().map(|at| Arc::clone(&walked.found[*at].node)).collect();
        let mut answers = together(nodes.iter().map(|node| tree.children(node)));
        for parent in parents {
            let answer = timeout_at(bounds.until, answers.next()).await;
            let (mut children, more) = match answer {
                Err(_) => {
                    walked.stopped(Stop::Time);
                    break;
                }
                Ok(Some(Ok(children))) => children,
                // One node that went takes nothing with it.
                Ok(None | Some(Err(Fault::Gone | Fault::Unknown | Fault::Refused(_)))) => continue,
                Ok(Some(Err(fault @ (Fault::Silent | Fault::Lost(_))))) => {
                    walked.fault = Some(fault);
                    break;
                }
            };
            if more {
                walked.stopped(Stop::Children);
            }
            walked.seen += children.len();
            if !bounds.hidden {
                // It is not listed, and has nothing below it that is.
                children.retain(|child| child.is_showing());
            }
            let room = bounds.nodes - walked.found.len();
            if children.len() > room {
                walked.stopped(Stop::Nodes);
            }
            let new = children.into_iter().take(room);
            walked.found.extend(new.map(|node| Found { node, parent: Some(parent), area: None }));
        }
        let over = matches!(walked.stop, Some(Stop::Nodes | Stop::Time)) || walked.fault.is_some();
        level = level.end..walked.found.len();
        if over {
            break;
        }
    }
    if walked.fault.is_none() {
        place(tree, &mut walked, bounds).await;
    }
    walked
}

fn may_have_children(node: &Node, bounds: Bounds) -> bool {
    node.children != 0 && (bounds.hidden || node.is_showing())
}

/// Asks where the nodes are.
async fn place(tree: &impl Tree, walked: &mut Walked, bounds: Bounds) {
    let wanted = |found: &Found| found.node.offers.component && (bounds.hidden || found.node.is_showing());
    let places: Vec<usize> = (0..walked.found.len()).filter(|at| wanted(&walked.found[*at])).collect();
    let nodes: Vec<Arc<Node>> = places.iter().map(|at| Arc::clone(&walked.found[*at].node)).collect();
    let mut answers = together(nodes.iter().map(|node| tree.area(node)));
    // At least a moment, so that what was found in the whole time is of some use.
    let until = bounds.until.max(Instant::now() + LEAST_PLACING);
    for at in places {
        match timeout_at(until, answers.next()).await {
            Ok(Some(Ok(area))) => walked.found[at].area = area,
            Ok(Some(Err(fault))) => {
                walked.fault = Some(fault);
                return;
            }
            Ok(None) => return,
            Err(_) => {
                walked.stopped(Stop::Time);
                return;
            }
        }
    }
}

/// How long places are asked for even when the walk took all its time.
const LEAST_PLACING: Duration = Duration::from_millis(50);

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
