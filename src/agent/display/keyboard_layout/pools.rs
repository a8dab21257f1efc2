//! Assignment of characters that the key map lacks to spare keycodes.
//!
//! A program may look up a key event late, in the map at that time. So the spare keys form two halves that
//! take turns: keys typed from one half stay bound while the other half is rebound. An existing binding is
//! used again. Needs no X server.

use std::collections::HashMap;

/// Levels of a spare key: plain and with Shift.
const LEVELS: usize = 2;

/// One half of the spare keycodes.
#[derive(Clone, Debug)]
pub(in crate::display) struct Half {
    /// Keycodes, ascending.
    pub(in crate::display) codes: Vec<u8>,
    /// The keysym of every level of every keycode; 0 for none.
    pub(in crate::display) bound: Vec<u32>,
}

/// A key to press, and whether with Shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::display) struct Stroke {
    pub(in crate::display) code: u8,
    pub(in crate::display) shift: bool,
}

/// The next step of typing a text.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::display) struct Step {
    /// Number of keysyms that can be typed after this step.
    pub(in crate::display) take: usize,
    /// Index of the half that must be rebound first, if any.
    pub(in crate::display) rebind: Option<usize>,
}

/// Both halves of the spare keycodes.
#[derive(Clone, Debug)]
pub(in crate::display) struct Pools {
    pub(in crate::display) halves: [Half; 2],
    next: usize,
}

impl Pools {
    /// Splits spare keycodes, given with their current two keysyms. `None` for fewer than one keycode per
    /// half.
    pub(in crate::display) fn new(mut spare: Vec<(u8, [u32; LEVELS])>) -> Option<Self> {
        if spare.len() < 2 {
            return None;
        }
        spare.sort_unstable();
        let upper = spare.split_off(spare.len() / 2);
        let half = |part: Vec<(u8, [u32; LEVELS])>| Half {
            codes: part.iter().map(|(code, _)| *code).collect(),
            bound: part.iter().flat_map(|(_, row)| *row).collect(),
        };
        Some(Self { halves: [half(spare), half(upper)], next: 0 })
    }

    /// Whether the spare keycodes have exactly these bindings; otherwise another program changed the map.
    pub(in crate::display) fn is_of(&self, spare: &[(u8, [u32; LEVELS])]) -> bool {
        let codes = self.halves.iter().flat_map(|half| &half.codes);
        let bound = self.halves.iter().flat_map(|half| &half.bound);
        codes.eq(spare.iter().map(|(code, _)| code)) && bound.eq(spare.iter().flat_map(|(_, row)| row))
    }

    /// The half and the key that a keysym is bound to.
    pub(in crate::display) fn find(&self, keysym: u32) -> Option<(usize, Stroke)> {
        self.halves.iter().enumerate().find_map(|(number, half)| {
            let slot = half.bound.iter().position(|bound| *bound == keysym)?;
            Some((number, Stroke { code: half.codes[slot / LEVELS], shift: slot % LEVELS == 1 }))
        })
    }

    /// Plans how to type `wanted`; `mapped` names keysyms that need no spare key. Updates the bindings in
    /// this value only.
    pub(in crate::display) fn step(&mut self, wanted: &[u32], mapped: impl Fn(u32) -> bool) -> Step {
        let other = &self.halves[1 - self.next];
        let capacity = self.halves[self.next].bound.len();
        // Keysyms for the half that may change, in order of appearance.
        let mut needed: Vec<u32> = Vec::new();
        let mut take = 0;
        for keysym in wanted {
            if !mapped(*keysym) && !other.bound.contains(keysym) && !needed.contains(keysym) {
                if needed.len() == capacity {
                    break;
                }
                needed.push(*keysym);
            }
            take += 1;
        }
        let half = &mut self.halves[self.next];
        let missing: Vec<u32> =
            needed.iter().copied().filter(|keysym| !half.bound.contains(keysym)).collect();
        if missing.is_empty() {
            return Step { take, rebind: None };
        }
        let mut missing = missing.into_iter();
        for slot in 0..capacity {
            if needed.contains(&half.bound[slot]) {
                continue;
            }
            let Some(keysym) = missing.next() else { break };
            half.bound[slot] = keysym;
        }
        let rebind = self.next;
        self.next = 1 - self.next;
        Step { take, rebind: Some(rebind) }
    }

    /// The request data for a half: first keycode, count, and `width` keysyms per keycode. Keycodes in the
    /// range that are not spare retain the keysyms of `present`.
    pub(in crate::display) fn rows(
        &self,
        half: usize,
        width: usize,
        present: impl Fn(u8) -> Vec<u32>,
    ) -> (u8, u8, Vec<u32>) {
        let half = &self.halves[half];
        let bound: HashMap<u8, &[u32]> = half.codes.iter().copied().zip(half.bound.chunks(LEVELS)).collect();
        let (first, last) = (half.codes[0], half.codes[half.codes.len() - 1]);
        let rows = (first..=last).flat_map(|code| {
            let mut row = bound.get(&code).map_or_else(|| present(code), |levels| doubled(levels));
            row.resize(width, 0);
            row
        });
        (first, last - first + 1, rows.collect())
    }
}

/// X reads a single letter as the pair of its small and capital form (X protocol, section 5), so this repeats
/// it.
fn doubled(levels: &[u32]) -> Vec<u32> {
    match levels {
        [plain, 0] => vec![*plain, *plain],
        other => other.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pools(codes: &[u8]) -> Pools {
        Pools::new(codes.iter().map(|code| (*code, [0, 0])).collect()).unwrap()
    }

    #[test]
    fn halves_take_turns_and_bindings_are_reused() {
        let mut pools = pools(&[13, 10, 12, 11]);
        let letters = |text: &str| text.chars().map(u32::from).collect::<Vec<_>>();
        let none = |_| false;
        // Four slots a half: a to d into the first, e to h into the second.
        assert_eq!(pools.step(&letters("abcdabefgh"), none), Step { take: 6, rebind: Some(0) });
        assert_eq!(pools.find('b'.into()), Some((0, Stroke { code: 10, shift: true })));
        assert_eq!(pools.step(&letters("aefgh"), none), Step { take: 5, rebind: Some(1) });
        assert_eq!(pools.find('e'.into()), Some((1, Stroke { code: 12, shift: false })));
        assert_eq!(pools.step(&letters("hgab"), none), Step { take: 4, rebind: None });
        // `a` stays where it is when `z` needs a slot.
        assert_eq!(pools.step(&letters("za"), none), Step { take: 2, rebind: Some(0) });
        assert_eq!(pools.find('a'.into()), Some((0, Stroke { code: 10, shift: false })));
        assert_eq!(
            pools.step(&letters("xyz"), |keysym| keysym != u32::from('z')),
            Step { take: 3, rebind: None }
        );
    }

    #[test]
    fn rows_do_not_change_other_keycodes() {
        let mut pools = pools(&[10, 12, 20, 21]);
        pools.step(&[7], |_| false);
        let rows = pools.rows(0, 3, |code| vec![u32::from(code); 4]);
        assert_eq!(rows, (10, 3, vec![7, 7, 0, 11, 11, 11, 0, 0, 0]));
        assert!(Pools::new(vec![(9, [0, 0])]).is_none());
    }

    proptest! {
        #[test]
        fn every_step_makes_progress_and_binds_its_keysyms(text in proptest::collection::vec(1_u32..60, 1..300)) {
            let mut pools = pools(&[1, 2, 3, 4, 5, 6]);
            let mut rest = text.as_slice();
            while !rest.is_empty() {
                let before = pools.clone();
                let step = pools.step(rest, |keysym| keysym < 10);
                prop_assert!(step.take > 0);
                for keysym in &rest[..step.take] {
                    prop_assert!(*keysym < 10 || pools.find(*keysym).is_some());
                }
                // The other half is unchanged.
                let kept = step.rebind.map_or(0, |half| 1 - half);
                prop_assert_eq!(&before.halves[kept].bound, &pools.halves[kept].bound);
                rest = &rest[step.take..];
            }
        }
    }
}
