//! How is an element made ready for a person's hand? Found again, scrolled into view, its window brought to the front.

use std::sync::Arc;
use std::time::Duration;

use atspi::{Role, ScrollType, State};

use super::bus::{ACCESSIBLE, Bus, Fault};
use super::details::{self, Details, MOST_NAME};
use super::ids::Known;
use super::object::{Area, Node, Object, Reference, cut};
use super::record::{Around, record};
use super::tree::{COMPONENT, ask_area, ask_node};
use super::windows::matching;
use super::{CALL_TIMEOUT, Elements, gone, refusal};
use crate::display::{Screen, Top};
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::pointer::Point;
use hotdesk_wire::element::Element;

/// Objects around one that are climbed; deeper nesting is no program's.
const MOST_AROUND: usize = 100;
/// How long a program may take to scroll, and a window to come to the front.
const REACH_TIMEOUT: Duration = Duration::from_secs(2);
/// An element that is still for this long has been scrolled to its place.
const STILL: Duration = Duration::from_millis(40);

/// An element that was found again.
pub(super) struct Held {
    pub(super) bus: Arc<Bus>,
    pub(super) id: String,
    pub(super) known: Known,
    pub(super) screen: Arc<Screen>,
    pub(super) node: Node,
    pub(super) area: Option<Area>,
    /// What is around it, the nearest first; the last is the window.
    around: Vec<(Node, Option<Area>)>,
    app: String,
}

impl Elements {
    /// Finds the object of an id, as it is now.
    pub(super) async fn hold(&self, id: &str) -> Result<Held> {
        let known = self.table().find(id).ok_or_else(gone)?;
        let screen = self.room.displays.screen(Some(&known.screen)).map_err(|_| gone())?;
        let bus = self.bus().await?;
        let held = Held::read(bus, id, known, screen).await;
        if let Err(Fault::Silent) = held {
            self.note(&self.table().find(id).ok_or_else(gone)?.object.name, false);
        }
        held.map_err(|fault| refusal(&fault))
    }
}

impl Held {
    async fn read(bus: Arc<Bus>, id: &str, known: Known, screen: Arc<Screen>) -> Result<Self, Fault> {
        let node = ask_node(&bus, &known.object, CALL_TIMEOUT).await?;
        let place = area(&bus, &node).await?;
        let (mut around, mut app) = (Vec::new(), String::new());
        let mut next = parent(&bus, &known.object).await?;
        // GTK answers for a destroyed widget until its last friend lets go of it: an orphan.
        let orphan = next.is_none() && !is_window(node.role);
        if node.states.contains(State::Defunct) || orphan {
            return Err(Fault::Gone);
        }
        for _ in 0..MOST_AROUND {
            let Some(object) = next else { break };
            let outer = ask_node(&bus, &object, CALL_TIMEOUT).await?;
            if outer.role == Role::Application {
                app = outer.name;
                break;
            }
            let outer_place = area(&bus, &outer).await?;
            next = parent(&bus, &object).await?;
            around.push((outer, outer_place));
        }
        Ok(Self { bus, id: id.to_owned(), known, screen, node, area: place, around, app })
    }

    /// Looks at it again.
    pub(super) async fn again(&self) -> Result<Self, Fault> {
        let (bus, screen) = (Arc::clone(&self.bus), Arc::clone(&self.screen));
        Self::read(bus, &self.id, self.known.clone(), screen).await
    }

    /// Its record.
    pub(super) async fn record(&self, parent: Option<String>) -> Result<Element, Fault> {
        let details: Details = details::details(&self.bus, &self.node, CALL_TIMEOUT).await?;
        let around = Around {
            parent,
            window: cut(&self.window().0.name, MOST_NAME),
            app: cut(&self.app, MOST_NAME),
            pid: self.known.pid,
        };
        Ok(record(self.id.clone(), &self.node, self.area, details, around))
    }

    /// The object around it, unless it is a window.
    pub(super) fn parent(&self) -> Option<&Object> {
        self.around.first().map(|(node, _)| &node.object)
    }

    /// Its window, which may be itself.
    fn window(&self) -> (&Node, Option<Area>) {
        self.around.last().map_or((&self.node, self.area), |(node, area)| (node, *area))
    }

    /// What of it can be seen: on the screen, in its window, in what scrolls around it.
    fn visible(&self) -> Option<Area> {
        let size = self.screen.size();
        let whole = Area { x: 0, y: 0, width: size.width.into(), height: size.height.into() };
        let mut seen = self.area.filter(|_| self.node.is_showing())?.common(whole)?;
        let last = self.around.len().saturating_sub(1);
        for (at, (node, area)) in self.around.iter().enumerate() {
            let cuts =
                at == last || matches!(node.role, Role::ScrollPane | Role::Viewport | Role::DocumentWeb);
            if let Some(area) = area.filter(|_| cuts) {
                seen = seen.common(area)?;
            }
        }
        Some(seen)
    }

    /// The X window that it is in, where one is like it.
    async fn top(&self) -> Result<Option<Top>> {
        let tops = self.screen.tops().await?;
        let (window, area) = self.window();
        let place = matching(&tops, self.known.pid, window, area);
        Ok(place.map(|place| tops.windows[place].clone()))
    }

    /// Brings its window to the front, with the focus.
    pub(super) async fn bring_forward(&self) -> Result<()> {
        let Some(top) = self.top().await? else { return Ok(()) };
        self.screen.bring_forward(top.window).await?;
        let screen = &self.screen;
        // A screen without a window manager never says so; then what follows tells.
        wait::until(STILL * 10, || async {
            let tops = screen.tops().await.ok()?;
            (tops.active == Some(top.window)).then_some(())
        })
        .await;
        Ok(())
    }

    /// Makes some of it visible and answers it with where to click; the point is its window's.
    pub(super) async fn reach(mut self) -> Result<(Self, Point)> {
        let mut seen = self.visible();
        if seen.is_none_or(|seen| self.area.is_some_and(|whole| seen.pixels() < whole.pixels())) {
            self = self.scrolled().await?;
            seen = self.visible();
        }
        if seen.is_none() && self.top().await?.is_some_and(|top| top.minimised) {
            self.bring_forward().await?;
            self = self.settled().await?;
            seen = self.visible();
        }
        let seen = seen.ok_or_else(|| {
            Error::conflict("Nothing of the element can be seen on its screen").code("element_not_visible")
        })?;
        let (x, y) = (seen.x + seen.width / 2, seen.y + seen.height / 2);
        let point = Point::parse(x.into(), y.into(), self.screen.size())?;
        if !self.is_own(point).await? {
            self.bring_forward().await?;
            let came = wait::until(REACH_TIMEOUT, || async {
                self.is_own(point).await.unwrap_or(false).then_some(())
            });
            if came.await.is_none() {
                return Err(Error::conflict("Another window covers the element").code("element_covered"));
            }
        }
        Ok((self, point))
    }

    /// Whether a click there comes to its window, as far as the X server tells.
    async fn is_own(&self, point: Point) -> Result<bool> {
        let under = self.screen.under(point).await?;
        if let Some(top) = self.top().await? {
            return Ok(under.iter().any(|(window, _)| *window == top.window));
        }
        let mut owners = under.iter().filter_map(|(_, pid)| *pid).peekable();
        Ok(owners.peek().is_none() || owners.any(|pid| pid == self.known.pid))
    }

    /// Asks its program to scroll it into view, where the program can.
    async fn scrolled(self) -> Result<Self> {
        if !self.node.offers.component {
            return Ok(self);
        }
        let anywhere = (ScrollType::Anywhere as u32,);
        let object = &self.known.object;
        match self.bus.ask::<bool>(object, COMPONENT, "ScrollTo", &anywhere, CALL_TIMEOUT).await {
            Ok(true) => self.settled().await,
            // It cannot, or not this one: what can be seen of it decides.
            Ok(false) | Err(Fault::Unknown | Fault::Refused(_)) => Ok(self),
            Err(fault @ (Fault::Gone | Fault::Silent | Fault::Lost(_))) => Err(refusal(&fault)),
        }
    }

    /// Looks at it again until it is still.
    async fn settled(self) -> Result<Self> {
        let mut last = self;
        let deadline = tokio::time::Instant::now() + REACH_TIMEOUT;
        loop {
            tokio::time::sleep(STILL).await;
            let now = last.again().await.map_err(|fault| refusal(&fault))?;
            let still = now.area == last.area && now.visible().is_some();
            last = now;
            if still || tokio::time::Instant::now() > deadline {
                return Ok(last);
            }
        }
    }
}

/// Whether a role is that of a window: some toolkits give theirs no parent.
fn is_window(role: Role) -> bool {
    matches!(role, Role::Frame | Role::Window | Role::Dialog | Role::Alert | Role::Application)
}

async fn parent(bus: &Bus, object: &Object) -> Result<Option<Object>, Fault> {
    let parent =
        bus.property::<zbus::zvariant::OwnedValue>(object, ACCESSIBLE, "Parent", CALL_TIMEOUT).await?;
    let reference = Reference::try_from(parent).map_err(|error| Fault::Refused(error.to_string()))?;
    Ok(Object::of(reference).filter(|parent| parent != object))
}

async fn area(bus: &Bus, node: &Node) -> Result<Option<Area>, Fault> {
    if node.offers.component { ask_area(bus, &node.object, CALL_TIMEOUT).await } else { Ok(None) }
}
