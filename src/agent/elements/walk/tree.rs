//! Tree of a program's objects, read from one bulk answer if its toolkit has one, else by single calls.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use atspi::{CoordType, State};
use futures_util::{StreamExt as _, stream};
use zbus::zvariant::{ObjectPath, OwnedValue};

use crate::elements::bus::object::{Area, Interfaces, Node, Object, Reference, role, states};
use crate::elements::bus::{ACCESSIBLE, Bus, BusFault};

/// Concurrent calls per list: enough to hide the latency of the bus, few enough that the program can do its
/// own work.
pub(in crate::elements) const IN_FLIGHT: usize = 32;
/// Most children of one object that are read by single calls: a list on a screen shows dozens; some lists
/// have a million.
pub(in crate::elements) const MAX_CHILDREN: i32 = 1000;
/// Number of children above which only the visible ones are read.
pub(in crate::elements) const MANY_CHILDREN: i32 = 100;
/// Object path of a program's bulk answer.
const CACHE: &str = "/org/a11y/atspi/cache";
/// Interface for positions.
pub(in crate::elements) const COMPONENT: &str = "org.a11y.atspi.Component";
/// Interface of the bulk answer.
const CACHE_INTERFACE: &str = "org.a11y.atspi.Cache";

/// Futures that run concurrently up to a limit, with results in order.
pub(in crate::elements) type ConcurrentCalls<F> = stream::Buffered<stream::Iter<std::vec::IntoIter<F>>>;

/// Runs futures concurrently; none starts before the first result is awaited.
pub(in crate::elements) fn run_concurrently<F: Future>(
    calls: impl IntoIterator<Item = F>,
) -> ConcurrentCalls<F> {
    stream::iter(calls.into_iter().collect::<Vec<_>>()).buffered(IN_FLIGHT)
}

/// A tree of nodes: the walk's interface to a program.
pub(in crate::elements) trait Tree: Sync {
    /// Returns the first children of a node, and whether there are more.
    fn children(&self, node: &Node) -> impl Future<Output = Result<(Vec<Arc<Node>>, bool), BusFault>> + Send;
    /// Returns the area of a node on the screen.
    fn area(&self, node: &Node) -> impl Future<Output = Result<Option<Area>, BusFault>> + Send;
}

/// Entry of a bulk answer of at-spi2-core 2.9 and later: object, program, parent, index in its parent, number
/// of children, interfaces, name, role, description, states. Borrowed from the message, because owned entries
/// of a long page would take tens of megabytes for a moment.
type Item<'m> = (
    BorrowedReference<'m>,
    BorrowedReference<'m>,
    BorrowedReference<'m>,
    i32,
    i32,
    Vec<&'m str>,
    &'m str,
    u32,
    &'m str,
    Vec<u32>,
);

/// Borrowed form of [`Reference`].
type BorrowedReference<'m> = (&'m str, ObjectPath<'m>);

/// Tree of a program.
pub(in crate::elements) struct ProgramTree<'a> {
    pub(in crate::elements) bus: &'a Bus,
    pub(in crate::elements) timeout: Duration,
    /// Whether nodes that are not visible are read as well.
    hidden: bool,
    /// Nodes of the bulk answer, by path.
    cached: HashMap<String, Arc<Node>>,
    /// Paths of children by the path of their parent, in order.
    below: HashMap<String, Vec<String>>,
}

impl<'a> ProgramTree<'a> {
    /// Reads the bulk answer, if there is one, for at most `bulk`.
    pub(in crate::elements) async fn read(
        bus: &'a Bus,
        root: &Object,
        timeout: Duration,
        bulk: Duration,
        hidden: bool,
    ) -> Self {
        let mut program = Self { bus, timeout, hidden, cached: HashMap::new(), below: HashMap::new() };
        let cache = Object { name: root.name.clone(), path: CACHE.to_owned() };
        // Toolkits without it, or with the older form, are read by single calls.
        if let Ok(message) = bus.message(&cache, CACHE_INTERFACE, "GetItems", &(), bulk).await
            && let Ok(items) = message.body().deserialize::<Vec<Item<'_>>>()
        {
            program.store(items);
        }
        program
    }

    fn store(&mut self, items: Vec<Item<'_>>) {
        let mut placed: HashMap<String, Vec<(i32, String)>> = HashMap::new();
        for (object, _, parent, index, children, interfaces, name, kind, description, words) in items {
            let Some(object) = owned(&object) else { continue };
            if let Some(parent) = owned(&parent) {
                placed.entry(parent.path).or_default().push((index, object.path.clone()));
            }
            let interfaces = Interfaces::of(&interfaces);
            let (role, states) = (role(kind), states(&words));
            let (path, name, description) = (object.path.clone(), name.to_owned(), description.to_owned());
            let node = Node { object, role, name, description, states, interfaces, children };
            self.cached.insert(path, Arc::new(node));
        }
        for (parent, mut children) in placed {
            children.sort_unstable();
            self.below.insert(parent, children.into_iter().map(|(_, path)| path).collect());
        }
    }

    /// Children from the bulk answer, if it has all of them.
    fn cached_children(&self, node: &Node) -> Option<Vec<Arc<Node>>> {
        let count = usize::try_from(node.children).ok()?;
        if count == 0 {
            return Some(Vec::new());
        }
        let paths = self.below.get(&node.object.path).filter(|paths| paths.len() == count)?;
        let cached = paths.iter().map(|path| self.cached.get(path).cloned());
        // A defunct child has been replaced by one that the answer does not contain yet.
        cached.map(|node| node.filter(|node| !node.states.contains(State::Defunct))).collect()
    }

    /// Returns one object.
    pub(in crate::elements) async fn node(&self, object: &Object) -> Result<Arc<Node>, BusFault> {
        if let Some(node) = self.cached.get(&object.path) {
            return Ok(Arc::clone(node));
        }
        fetch_node(self.bus, object, self.timeout).await.map(Arc::new)
    }
}

fn owned((name, path): &BorrowedReference<'_>) -> Option<Object> {
    Object::of(((*name).to_owned(), path.to_owned().into()))
}

/// Fetches all data of a node, in four concurrent calls.
pub(in crate::elements) async fn fetch_node(
    bus: &Bus,
    object: &Object,
    timeout: Duration,
) -> Result<Node, BusFault> {
    let all = (ACCESSIBLE,);
    let (kind, words, interfaces, properties) = futures_util::try_join!(
        bus.call::<u32>(object, ACCESSIBLE, "GetRole", &(), timeout),
        bus.call::<Vec<u32>>(object, ACCESSIBLE, "GetState", &(), timeout),
        bus.call::<Vec<String>>(object, ACCESSIBLE, "GetInterfaces", &(), timeout),
        bus.call::<HashMap<String, OwnedValue>>(
            object,
            "org.freedesktop.DBus.Properties",
            "GetAll",
            &all,
            timeout
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
        interfaces: Interfaces::of(&interfaces),
        children: children.unwrap_or(-1),
    })
}

/// Fetches the area of an object on the screen.
pub(in crate::elements) async fn fetch_area(
    bus: &Bus,
    object: &Object,
    timeout: Duration,
) -> Result<Option<Area>, BusFault> {
    let asked = (CoordType::Screen as u32,);
    match bus.call::<(i32, i32, i32, i32)>(object, COMPONENT, "GetExtents", &asked, timeout).await {
        Ok(extents) => Ok(Area::of(extents)),
        Err(BusFault::Gone | BusFault::Unknown | BusFault::Refused(_)) => Ok(None),
        Err(fault @ (BusFault::Silent | BusFault::Lost(_))) => Err(fault),
    }
}

impl Tree for ProgramTree<'_> {
    async fn children(&self, node: &Node) -> Result<(Vec<Arc<Node>>, bool), BusFault> {
        if let Some(cached) = self.cached_children(node) {
            return Ok((cached, false));
        }
        let object = &node.object;
        let count = match node.children {
            -1 => self.bus.property(object, ACCESSIBLE, "ChildCount", self.timeout).await.unwrap_or(0),
            count => count,
        };
        let visible_rows =
            if count > MANY_CHILDREN && !self.hidden { self.visible_rows(node).await? } else { None };
        // All rows of a table with a million rows would take seconds.
        let (range, more) = match visible_rows {
            Some((first, last)) => (Some(first..last + 1), false),
            None if count > MAX_CHILDREN => (Some(0..MAX_CHILDREN), true),
            None => (None, false),
        };
        let references: Vec<Reference> = match range {
            Some(range) => {
                let calls = range.map(async |number| {
                    self.bus.call(object, ACCESSIBLE, "GetChildAtIndex", &(number,), self.timeout).await
                });
                let answers: Vec<Result<Reference, BusFault>> = run_concurrently(calls).collect().await;
                answers.into_iter().collect::<Result<_, _>>()?
            }
            None => self.bus.call(object, ACCESSIBLE, "GetChildren", &(), self.timeout).await?,
        };
        let objects = references.into_iter().filter_map(Object::of).collect::<Vec<_>>();
        let mut nodes = Vec::new();
        let mut answers = run_concurrently(objects.iter().map(|object| self.node(object)));
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(node) => nodes.push(node),
                // The object has vanished meanwhile, or its reference is invalid.
                Err(BusFault::Gone | BusFault::Unknown | BusFault::Refused(_)) => {}
                Err(fault @ (BusFault::Silent | BusFault::Lost(_))) => return Err(fault),
            }
        }
        Ok((nodes, more))
    }

    async fn area(&self, node: &Node) -> Result<Option<Area>, BusFault> {
        fetch_area(self.bus, &node.object, self.timeout).await
    }
}
