//! Which children of a long list are in sight? Found by what is at its corners, instead of asking for each.

use atspi::{CoordType, Role, State};
use futures_util::StreamExt as _;

use super::bus::{ACCESSIBLE, Fault};
use super::object::{Node, Object, Reference};
use super::tree::{COMPONENT, MANY_CHILDREN, MOST_CHILDREN, Program, Tree as _, together};

/// Inset of the points that such a list is probed at, in pixels: inside its border.
const INSET: i32 = 4;
/// How far down the list's top is probed, in pixels: rows begin below a header, whose cells are no rows.
const PROBES_DOWN: [i32; 5] = [4, 24, 44, 64, 84];

/// Whether the children lie in the order of their numbers: only then what is between two corners is what is in sight.
fn is_in_rows(node: &Node) -> bool {
    let role = matches!(node.role, Role::List | Role::ListBox | Role::Table | Role::Tree | Role::TreeTable);
    role || node.states.contains(State::ManagesDescendants)
}

impl Program<'_> {
    /// The first and the last child in sight of a long list, found by the places of its corners; `None` when its program
    /// does not tell, or too many are in sight.
    pub(super) async fn in_sight(&self, node: &Node) -> Result<Option<(i32, i32)>, Fault> {
        if !node.offers.component || !is_in_rows(node) {
            return Ok(None);
        }
        let Some(area) = self.area(node).await? else { return Ok(None) };
        let top = PROBES_DOWN.map(|down| (area.x + INSET, area.y + down));
        let (right, bottom) = (area.x + area.width - INSET, area.y + area.height - INSET);
        // A list that is not full ends above its bottom, and a row may end before the right edge.
        let ends = [(right, bottom), (area.x + INSET, bottom)];
        let calls = top.into_iter().chain(ends).map(|point| self.child_at(node, point));
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut answers = together(calls);
        while let Some(answer) = answers.next().await {
            let found = if first.len() < PROBES_DOWN.len() { &mut first } else { &mut last };
            found.push(answer?);
        }
        // A header's cells come before all rows: of the probes from the top the last ones are rows.
        let end = last.into_iter().flatten().max();
        let begin = first
            .into_iter()
            .flatten()
            .reduce(|above, below| if below > above + MANY_CHILDREN { below } else { above });
        Ok(begin.zip(end).filter(|(begin, end)| begin <= end && end - begin < MOST_CHILDREN))
    }

    /// The number of the child at a point.
    async fn child_at(&self, node: &Node, (x, y): (i32, i32)) -> Result<Option<i32>, Fault> {
        let asked = (x, y, CoordType::Screen as u32);
        let found: Reference = match self
            .bus
            .ask(&node.object, COMPONENT, "GetAccessibleAtPoint", &asked, self.patience)
            .await
        {
            Ok(found) => found,
            Err(fault @ (Fault::Silent | Fault::Lost(_))) => return Err(fault),
            Err(Fault::Gone | Fault::Unknown | Fault::Refused(_)) => return Ok(None),
        };
        let Some(child) = Object::of(found).filter(|child| *child != node.object) else { return Ok(None) };
        match self.bus.ask(&child, ACCESSIBLE, "GetIndexInParent", &(), self.patience).await {
            Ok(number) => Ok(Some(number).filter(|number: &i32| *number >= 0)),
            Err(fault @ (Fault::Silent | Fault::Lost(_))) => Err(fault),
            Err(Fault::Gone | Fault::Unknown | Fault::Refused(_)) => Ok(None),
        }
    }
}
