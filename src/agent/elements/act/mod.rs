//! How is an element clicked, set and focused? And what is true of it afterwards.

use std::time::Duration;

use atspi::State;

use super::bus::Fault;
use super::details::ACTION;
use super::ids::Known;
use super::reach::Held;
use super::tree::COMPONENT;
use super::value::Wanted;
use super::{CALL_TIMEOUT, Elements, refusal};
use crate::display::Press;
use hotdesk_base::wait;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::pointer::{Button, Point};
use hotdesk_wire::element::{Element, ElementActed, ElementClick, ElementValue};

/// How long a click's effect on the element itself is waited for; most programs react within one drawn frame.
const EFFECT_TIMEOUT: Duration = Duration::from_millis(250);
/// A record that did not change for this long is that of the effect.
const STILL: Duration = Duration::from_millis(50);
/// Looks at a record that goes on changing.
const MOST_LOOKS: usize = 5;
/// How long a value or the focus may take to be what was asked: a browser on a busy machine needs more than a second
/// from its word that it will to its word that it has. What it has is seen at once, so only a failure takes that long.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an action's answer is waited for: a dialog that it opens may hold it back until somebody closes that.
const ACTION_TIMEOUT: Duration = Duration::from_millis(800);
/// As [`CHANGE_TIMEOUT`], where the program said that it would not: some say so and do.
const REFUSED_TIMEOUT: Duration = Duration::from_millis(700);

impl Elements {
    /// Clicks an element with the pointer, or tells its program to do its first action.
    ///
    /// # Errors
    /// `NotFound` with `element_gone`; `Conflict` when it cannot be seen or is covered, or has no action.
    pub async fn click(&self, id: &str, click: &ElementClick) -> Result<ElementActed> {
        let button = Button::parse(click.button.as_deref())?;
        let double = click.double.unwrap_or(false);
        let by_action = match click.method.as_deref() {
            None | Some("pointer") => false,
            Some("action") if click.button.is_some() || double => {
                return Err(Error::invalid("an action has no button and is done once"));
            }
            Some("action") => true,
            Some(_) => return Err(Error::invalid("method must be pointer or action")),
        };
        let held = self.hold(id).await?;
        let before = self.told(&held).await.ok();
        let (point, refused) = if by_action {
            (None, first_action(&held).await?)
        } else {
            let (held, point) = held.reach().await?;
            let press = Press { button, count: if double { 2 } else { 1 }, modifiers: Vec::new() };
            let _turn = held.screen.turn().await?;
            (Some(held.screen.click(point.x.into(), point.y.into(), press).await?.value), None)
        };
        let after = self.changed(id, before.as_ref()).await;
        let action = if double { "double_click" } else { "click" };
        Ok(acted(action, refused, point, after))
    }

    /// Sets an element's text or number, and reads it back.
    ///
    /// # Errors
    /// As [`Elements::click`]; `Conflict` with `element_not_settable` for what has neither.
    pub async fn set_value(&self, id: &str, value: &ElementValue) -> Result<ElementActed> {
        let held = self.hold(id).await?;
        let wanted = Wanted::of(&held, value)?;
        let refused = wanted.set(&held).await?;
        let reads_back = wait::until(patience(refused), || async {
            wanted.is_so(&held).await.unwrap_or(false).then_some(())
        });
        let reason = match reads_back.await {
            Some(()) => None,
            None => Some(refused.unwrap_or("the value read back is another")),
        };
        let after = self.changed(id, None).await;
        Ok(acted("set_value", reason, None, after))
    }

    /// Gives an element the keyboard focus, its window included.
    ///
    /// # Errors
    /// As [`Elements::click`].
    pub async fn focus(&self, id: &str) -> Result<ElementActed> {
        let reason = take_focus(&self.hold(id).await?).await?;
        let after = self.changed(id, None).await;
        Ok(acted("focus", reason, None, after))
    }

    /// The record of an element that is held.
    async fn told(&self, held: &Held) -> Result<Element, Fault> {
        let Known { pid, screen, .. } = held.known.clone();
        let parent = held.parent().map(|object| {
            let known = Known { object: object.clone(), pid, screen };
            self.table().id(known)
        });
        held.record(parent).await
    }

    /// The record afterwards: once it differs from the one before and is still, else after a while; `None` once it is
    /// gone.
    async fn changed(&self, id: &str, before: Option<&Element>) -> Option<Element> {
        let look = || async { self.told(&self.hold(id).await.ok()?).await.ok() };
        let Some(before) = before else { return look().await };
        let differs = wait::until(EFFECT_TIMEOUT, || async {
            let now = look().await;
            (now.as_ref() != Some(before)).then_some(now)
        });
        let Some(mut last) = differs.await else { return Some(before.clone()) };
        // A press changes it, and the release again.
        for _ in 0..MOST_LOOKS {
            tokio::time::sleep(STILL).await;
            let now = look().await;
            if now == last {
                break;
            }
            last = now;
        }
        last
    }
}

/// How long what was asked is waited for, after what the program said to it.
fn patience(refused: Option<&str>) -> Duration {
    if refused.is_some() { REFUSED_TIMEOUT } else { CHANGE_TIMEOUT }
}

fn acted(
    action: &str,
    refused: Option<&str>,
    point: Option<Point>,
    element: Option<Element>,
) -> ElementActed {
    ElementActed {
        success: refused.is_none(),
        action: action.to_owned(),
        x: point.map(|point| point.x.into()),
        y: point.map(|point| point.y.into()),
        reason: refused.map(str::to_owned),
        element,
    }
}

/// Gives an element the focus; why it does not have it, if it does not.
pub(super) async fn take_focus(held: &Held) -> Result<Option<&'static str>> {
    if !held.node.states.contains(State::Focused) {
        held.bring_forward().await?;
    }
    let asked: Result<bool, Fault> =
        held.bus.ask(&held.known.object, COMPONENT, "GrabFocus", &(), CALL_TIMEOUT).await;
    let refused = match asked {
        Ok(true) => None,
        Ok(false) | Err(Fault::Unknown | Fault::Refused(_)) => Some("the program refused the focus"),
        Err(fault @ (Fault::Gone | Fault::Silent | Fault::Lost(_))) => return Err(refusal(&fault)),
    };
    let focused = wait::until(patience(refused), || async {
        let now = held.again().await.ok()?;
        now.node.states.contains(State::Focused).then_some(())
    });
    Ok(match focused.await {
        Some(()) => None,
        None => Some(refused.unwrap_or("the element does not say that it has the focus")),
    })
}

/// Does the first action; why the program did not, if it did not.
async fn first_action(held: &Held) -> Result<Option<&'static str>> {
    if !held.node.offers.action {
        return Err(Error::conflict("The element has no action").code("element_no_action"));
    }
    match held.bus.ask(&held.known.object, ACTION, "DoAction", &(0_i32,), ACTION_TIMEOUT).await {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some("the program refused the action")),
        // A modal dialog that the action opens can hold its answer back.
        Err(Fault::Silent) => Ok(Some("the program did not answer in time")),
        Err(fault) => Err(refusal(&fault)),
    }
}
