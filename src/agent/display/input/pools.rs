//! Which spare keycode types which character that the key map lacks? Two half pools, used in turn.
//!
//! A program may look a key event up late, in the map as it is then. So what was typed from one half stays bound
//! while the other half is bound anew; and what is bound already is used again without a change. Knows no X server.

use std::collections::HashMap;

/// Levels of one spare key: plain and with Shift.
const LEVELS: usize = 2;

/// One half of the spare keycodes.
#[derive(Clone, Debug)]
pub(super) struct Half {
    /// Its keycodes, ascending.
    pub(super) codes: Vec<u8>,
    /// The keysym of every level of every code, 0 for none.
    pub(super) bound: Vec<u32>,
}

/// A key to press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stroke {
    pub(super) code: u8,
    pub(super) shift: bool,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// How many of the keysyms asked for can be typed after this step.
    pub(super) take: usize,
    /// The half that has to be bound anew first, when one has.
    pub(super) rebind: Option<usize>,
}

/// Both halves.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    pub(super) halves: [Half; 2],
    next: usize,
}

impl Pools {
    /// Splits spare codes with their present first two keysyms. `None` with fewer than one per half.
    pub(super) fn new(mut spare: Vec<(u8, [u32; LEVELS])>) -> Option<Self> {
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

    /// Whether these are exactly these spare codes with this binding: otherwise another program changed the map.
    pub(super) fn is_of(&self, spare: &[(u8, [u32; LEVELS])]) -> bool {
        let codes = self.halves.iter().flat_map(|half| &half.codes);
        let bound = self.halves.iter().flat_map(|half| &half.bound);
        codes.eq(spare.iter().map(|(code, _)| code)) && bound.eq(spare.iter().flat_map(|(_, row)| row))
    }

    /// Where a keysym is bound, with the half.
    pub(super) fn find(&self, keysym: u32) -> Option<(usize, Stroke)> {
        self.halves.iter().enumerate().find_map(|(number, half)| {
            let slot = half.bound.iter().position(|bound| *bound == keysym)?;
            Some((number, Stroke { code: half.codes[slot / LEVELS], shift: slot % LEVELS == 1 }))
        })
    }

    /// Plans the typing of `wanted`, of which `mapped` needs no spare key; binds (in here) what the step needs.
    pub(super) fn step(&mut self, wanted: &[u32], mapped: impl Fn(u32) -> bool) -> Step {
        let other = &self.halves[1 - self.next];
        let room = self.halves[self.next].bound.len();
        // Needed from the half that may change, in order of appearance.
        let mut needed: Vec<u32> = Vec::new();
        let mut take = 0;
        for keysym in wanted {
            if !mapped(*keysym) && !other.bound.contains(keysym) && !needed.contains(keysym) {
                if needed.len() == room {
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
        for slot in 0..room {
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

    /// The rows to send for a half: a contiguous range of codes from the first to the last, `width` keysyms each;
    /// codes between that are not spare keep what `present` says.
    pub(super) fn rows(
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

/// A letter alone would be read as the pair of its small and its capital form (X protocol, section 5): say it twice.
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
    fn halves_take_turns_and_what_is_bound_is_used_again() {
        let mut pools = pools(&[13, 10, 12, 11]);
        let letters = |text: &str| text.chars().map(u32::from).collect::<Vec<_>>();
        let none = |_| false;
        // Four slots a half: a to d into the first, e to h into the second.
        assert_eq!(pools.step(&letters("abcdabefgh"), none), Step { take: 6, rebind: Some(0) });
        assert_eq!(pools.find('b'.into()), Some((0, Stroke { code: 10, shift: true })));
        assert_eq!(pools.step(&letters("aefgh"), none), Step { take: 5, rebind: Some(1) });
        assert_eq!(pools.find('e'.into()), Some((1, Stroke { code: 12, shift: false })));
        assert_eq!(pools.step(&letters("hgab"), none), Step { take: 4, rebind: None });
        // `a` stays where it is when `z` needs room.
        assert_eq!(pools.step(&letters("za"), none), Step { take: 2, rebind: Some(0) });
        assert_eq!(pools.find('a'.into()), Some((0, Stroke { code: 10, shift: false })));
        assert_eq!(
            pools.step(&letters("xyz"), |keysym| keysym != u32::from('z')),
            Step { take: 3, rebind: None }
        );
    }

    #[test]
    fn rows_leave_what_lies_between_alone() {
        let mut pools = pools(&[10, 12, 20, 21]);
        pools.step(&[7], |_| false);
        let rows = pools.rows(0, 3, |code| vec![u32::from(code); 4]);
        assert_eq!(rows, (10, 3, vec![7, 7, 0, 11, 11, 11, 0, 0, 0]));
        assert!(Pools::new(vec![(9, [0, 0])]).is_none());
    }

    proptest! {
        #[test]
        fn every_step_moves_on_and_all_it_takes_is_bound(text in proptest::collection::vec(1_u32..60, 1..300)) {
            let mut pools = pools(&[1, 2, 3, 4, 5, 6]);
            let mut rest = text.as_slice();
            while !rest.is_empty() {
                let before = pools.clone();
                let step = pools.step(rest, |keysym| keysym < 10);
                prop_assert!(step.take > 0);
                for keysym in &rest[..step.take] {
                    prop_assert!(*keysym < 10 || pools.find(*keysym).is_some());
                }
                // The half that was not bound anew is as it was.
                let kept = step.rebind.map_or(0, |half| 1 - half);
                prop_assert_eq!(&before.halves[kept].bound, &pools.halves[kept].bound);
                rest = &rest[step.take..];
            }
        }
    }
}
