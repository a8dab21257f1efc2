//! What has a node below it? A program's objects, from one bulk answer where its toolkit has them, else one by one.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use atspi::{CoordType, State};
use futures_util::{StreamExt as _, stream};
use zbus::zvariant::{ObjectPath, OwnedValue};

use super::bus::{ACCESSIBLE, Bus, Fault};
use super::object::{Area, Node, Object, Offers, Reference, role, states};

/// Calls that are in flight at once per list: enough to hide the bus's latency, few enough that the program's own work
/// goes on between them.
pub(super) const IN_FLIGHT: usize = 32;
/// Children of one object that are asked for one by one: a list on a screen shows dozens; some lists have a million.
pub(super) const MOST_CHILDREN: i32 = 1000;
/// Children from which those in sight are found by their places instead of asked for one by one.
pub(super) const MANY_CHILDREN: i32 = 100;
/// Path of a program's bulk answer.
const CACHE: &str = "/org/a11y/atspi/cache";
/// Interface of what has a place.
pub(super) const COMPONENT: &str = "org.a11y.atspi.Component";
/// Interface of the bulk answer.
const CACHE_INTERFACE: &str = "org.a11y.atspi.Cache";

/// Futures that run together, a bounded number at a time, and answer in order.
pub(super) type Together<F> = stream::Buffered<stream::Iter<std::vec::IntoIter<F>>>;

/// Runs futures together; none begins before the first answer is asked for.
pub(super) fn together<F: Future>(calls: impl IntoIterator<Item = F>) -> Together<F> {
    stream::iter(calls.into_iter().collect::<Vec<_>>()).buffered(IN_FLIGHT)
}

/// A tree of nodes. The walk knows no more of a program than this.
pub(super) trait Tree: Sync {
    /// The first children of a node, and whether there are more.
    fn children(&self, node: &Node) -> impl Future<Output = Result<(Vec<Arc<Node>>, bool), Fault>> + Send;
    /// Where a node is on the screen.
    fn area(&self, node: &Node) -> impl Future<Output = Result<Option<Area>, Fault>> + Send;
}

/// One entry of a bulk answer, in the form of at-spi2-core 2.9 and later: object, program, parent, place among its
/// parent's children, number of children, interfaces, name, role, description, states.
/// Borrowed from the message: owned, those of a long page would take tens of megabytes for a moment.
type Item<'m> = (Place<'m>, Place<'m>, Place<'m>, i32, i32, Vec<&'m str>, &'m str, u32, &'m str, Vec<u32>);

/// As [`Reference`], borrowed.
type Place<'m> = (&'m str, ObjectPath<'m>);

/// A program's tree.
pub(super) struct Program<'a> {
    pub(super) bus: &'a Bus,
    pub(super) patience: Duration,
    /// Whether what is not in sight is wanted as well.
    hidden: bool,
    /// Everything that the bulk answer told, by path.
    told: HashMap<String, Arc<Node>>,
    /// Paths of children by their parent's, in order.
    below: HashMap<String, Vec<String>>,
}

impl<'a> Program<'a> {
    /// Reads the bulk answer, where there is one; `bulk` is how long that may take.
    pub(super) async fn read(
        bus: &'a Bus,
        root: &Object,
        patience: Duration,
        bulk: Duration,
        hidden: bool,
    ) -> Self {
        let mut program = Self { bus, patience, hidden, told: HashMap::new(), below: HashMap::new() };
        let cache = Object { name: root.name.clone(), path: CACHE.to_owned() };
        // A toolkit without it, or with the older form, is asked one by one.
        if let Ok(message) = bus.message(&cache, CACHE_INTERFACE, "GetItems", &(), bulk).await
            && let Ok(items) = message.body().deserialize::<Vec<Item<'_>>>()
        {
            program.keep(items);
        }
        program
    }

    fn keep(&mut self, items: Vec<Item<'_>>) {
        let mut placed: HashMap<String, Vec<(i32, String)>> = HashMap::new();
        for (object, _, parent, index, children, interfaces, name, kind, description, words) in items {
            let Some(object) = owned(&object) else { continue };
            if let Some(parent) = owned(&parent) {
                placed.entry(parent.path).or_default().push((index, object.path.clone()));
            }
            let offers = Offers::of(&interfaces);
            let (role, states) = (role(kind), states(&words));
            let (path, name, description) = (object.path.clone(), name.to_owned(), description.to_owned());
            let node = Node { object, role, name, description, states, offers, children };
            self.told.insert(path, Arc::new(node));
        }
        for (parent, mut children) in placed {
            children.sort_unstable();
            self.below.insert(parent, children.into_iter().map(|(_, path)| path).collect());
        }
    }

    /// The children as told, if all of them were.
    fn told_below(&self, node: &Node) -> Option<Vec<Arc<Node>>> {
        let count = usize::try_from(node.children).ok()?;
        if count == 0 {
            return Some(Vec::new());
        }
        let paths = self.below.get(&node.object.path).filter(|paths| paths.len() == count)?;
        let told = paths.iter().map(|path| self.told.get(path).cloned());
        // One that is dead has a successor that the answer did not have yet.
        told.map(|node| node.filter(|node| !node.states.contains(State::Defunct))).collect()
    }

    /// Asks for one object.
    pub(super) async fn node(&self, object: &Object) -> Result<Arc<Node>, Fault> {
        if let Some(node) = self.told.get(&object.path) {
            return Ok(Arc::clone(node));
        }
        ask_node(self.bus, object, self.patience).await.map(Arc::new)
    }
}

fn owned((name, path): &Place<'_>) -> Option<Object> {
    Object::of(((*name).to_owned(), path.to_owned().into()))
}

/// Asks an object for all that a node has, in five calls at once.
pub(super) async fn ask_node(bus: &Bus, object: &Object, patience: Duration) -> Result<Node, Fault> {
    let all = (ACCESSIBLE,);
    let (kind, words, interfaces, properties) = futures_util::try_join!(
        bus.ask::<u32>(object, ACCESSIBLE, "GetRole", &(), patience),
        bus.ask::<Vec<u32>>(object, ACCESSIBLE, "GetState", &(), patience),
        bus.ask::<Vec<String>>(object, ACCESSIBLE, "GetInterfaces", &(), patience),
        bus.ask::<HashMap<String, OwnedValue>>(
            object,
            "org.freedesktop.DBus.Properties",
            "GetAll",
            &all,
            patience
        ),
    )?;
    let text = |name: &str| {
        let value = properties.get(name).and_then(|value| <&str>::try_from(value).ok());
        value.unwrap_or_default().to_owned()
    };
    let children = properties.get("ChildCount").and_then(|value| i32::try_from(value).ok());
    Ok(Node {
        object: object.clone(),
        role: role(kind),
        name: text("Name"),
        description: text("Description"),
        states: states(&words),
        offers: Offers::of(&interfaces),
        children: children.unwrap_or(-1),
    })
}

/// Where an object is on the screen.
pub(super) async fn ask_area(bus: &Bus, object: &Object, patience: Duration) -> Result<Option<Area>, Fault> {
    let asked = (CoordType::Screen as u32,);
    match bus.ask::<(i32, i32, i32, i32)>(object, COMPONENT, "GetExtents", &asked, patience).await {
        Ok(extents) => Ok(Area::of(extents)),
        Err(Fault::Gone | Fault::Unknown | Fault::Refused(_)) => Ok(None),
        Err(fault @ (Fault::Silent | Fault::Lost(_))) => Err(fault),
    }
}

impl Tree for Program<'_> {
    async fn children(&self, node: &Node) -> Result<(Vec<Arc<Node>>, bool), Fault> {
        if let Some(told) = self.told_below(node) {
            return Ok((told, false));
        }
        let object = &node.object;
        let count = match node.children {
            -1 => self.bus.property(object, ACCESSIBLE, "ChildCount", self.patience).await.unwrap_or(0),
            count => count,
        };
        let in_sight = if count > MANY_CHILDREN && !self.hidden { self.in_sight(node).await? } else { None };
        // The whole list of a table of a million rows would take seconds.
        let (range, more) = match in_sight {
            Some((first, last)) => (Some(first..last + 1), false),
            None if count > MOST_CHILDREN => (Some(0..MOST_CHILDREN), true),
            None => (None, false),
        };
        let references: Vec<Reference> = match range {
            Some(range) => {
                let calls = range.map(async |number| {
                    self.bus.ask(object, ACCESSIBLE, "GetChildAtIndex", &(number,), self.patience).await
                });
                let answers: Vec<Result<Reference, Fault>> = together(calls).collect().await;
                answers.into_iter().collect::<Result<_, _>>()?
            }
            None => self.bus.ask(object, ACCESSIBLE, "GetChildren", &(), self.patience).await?,
        };
        let objects = references.into_iter().filter_map(Object::of).collect::<Vec<_>>();
        let mut nodes = Vec::new();
        let mut answers = together(objects.iter().map(|object| self.node(object)));
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(node) => nodes.push(node),
                // It went between the two questions, or is no object at all.
                Err(Fault::Gone | Fault::Unknown | Fault::Refused(_)) => {}
                Err(fault @ (Fault::Silent | Fault::Lost(_))) => return Err(fault),
            }
        }
        Ok((nodes, more))
    }

    async fn area(&self, node: &Node) -> Result<Option<Area>, Fault> {
        ask_area(self.bus, &node.object, self.patience).await
    }
}
