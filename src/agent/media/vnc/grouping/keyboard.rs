//! Keys of a viewer: typed characters, which are counted, and keys with a name.

use std::time::Instant;

use super::{Content, Group, InputGroups, Step};
use crate::display::keys::{self, Modifier};

/// Most characters of one entry: about a paragraph.
const MAX_CHARACTERS: u64 = 200;
/// Most named keys of one entry, as in actions of the API.
const MAX_KEYS: usize = 100;

impl InputGroups {
    pub(super) fn key(&mut self, at: Instant, is_down: bool, keysym: u32, steps: &mut Vec<Step>) {
        let Some(modifier) = Modifier::of_keysym(keysym) else {
            if is_down {
                self.alone = None;
                self.add_key(at, keys::name_unless_typing(keysym), steps);
            }
            return;
        };
        if !is_down {
            // With Shift, the key that goes up may have another keysym.
            self.modifiers.retain(|held| *held != modifier);
            if self.alone.take() == Some(modifier) {
                self.add_key(at, Some(modifier.name().to_owned()), steps);
            }
        } else if !self.modifiers.contains(&modifier) {
            self.alone = self.modifiers.is_empty().then_some(modifier);
            self.modifiers.push(modifier);
        }
    }

    /// Adds a key that went down: its name, or none when it types a character.
    fn add_key(&mut self, at: Instant, name: Option<String>, steps: &mut Vec<Step>) {
        if !matches!(&self.group, Some(Group { content: Content::Keys { .. }, .. })) {
            self.begin(at, Content::Keys { characters: 0, names: Vec::new() }, steps);
        }
        let Some(Group { last, content: Content::Keys { characters, names }, .. }) = &mut self.group else {
            return;
        };
        *last = at;
        let is_command =
            self.modifiers.iter().any(|held| [Modifier::Ctrl, Modifier::Alt, Modifier::Super].contains(held));
        match name {
            None if !is_command => *characters += 1,
            None => names.push(keys::masked_chord(&self.modifiers, "*")),
            Some(name) => names.push(keys::masked_chord(&self.modifiers, &name)),
        }
        if *characters == MAX_CHARACTERS || names.len() == MAX_KEYS {
            self.end(steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::In::{self, At, Down, Left, Pause, Text, Up};
    use super::super::fixture::{CTRL, SHIFT, told};
    use super::MAX_KEYS;

    const RETURN: u32 = 0xff0d;
    const DOWN: u32 = 0xff54;
    const ALT: u32 = 0xffe9;
    const META: u32 = 0xffe7;

    #[test]
    fn typed_keys_are_counted_and_others_are_named() {
        let typed: Vec<In> = "hunter2".bytes().map(|byte| Down(50, byte.into())).collect();
        for (inputs, expected) in [
            ([&typed[..], &[Pause(1000)]].concat(), vec!["type (7) 300ms"]),
            ([&typed[..], &[Down(10, RETURN), Left]].concat(), vec!["type (7) Return 310ms"]),
            ([&typed[..], &[At(10, 0, 1, 1), Down(10, 97), Left]].concat(), vec!["type (8) 320ms"]),
            (
                [&typed[..], &[At(10, 1, 1, 1), At(10, 0, 1, 1), Left]].concat(),
                vec!["type (7) 300ms", "click left 1 1 x1 10ms"],
            ),
            (
                [&typed[..], &typed[..], &[Down(1000, 97), Left]].concat(),
                vec!["type (14) 650ms", "type (1) 0ms"],
            ),
            (vec![Down(0, DOWN), Down(30, DOWN), Up(5, DOWN), Left], vec!["key Down Down 30ms"]),
            // Shift types, Control and Alt do not.
            (vec![Down(0, SHIFT), Down(1, 65), Up(1, 65), Up(1, SHIFT), Left], vec!["type (1) 0ms"]),
            (vec![Down(0, CTRL), Down(1, 99), Up(1, 99), Up(1, CTRL), Left], vec!["key ctrl+* 0ms"]),
            (
                vec![Down(0, CTRL), Down(1, ALT), Down(1, 113), Up(1, CTRL), Up(1, ALT), Down(1, 97), Left],
                vec!["type (1) ctrl+alt+* 3ms"],
            ),
            (vec![Down(0, ALT), Down(1, RETURN), Up(1, ALT), Left], vec!["key alt+Return 0ms"]),
            // A modifier alone, also when it repeats.
            (vec![Down(0, META), Down(9, META), Up(9, META), Left], vec!["key super 0ms"]),
            (
                vec![Down(0, CTRL), At(1, 1, 5, 5), At(1, 0, 5, 5), Up(1, CTRL), Left],
                vec!["click left 5 5 x1 1ms"],
            ),
            (vec![Down(0, CTRL), Down(0, SHIFT), Up(1, SHIFT), Up(1, CTRL), Left], vec![]),
            // Nothing is known of a key without a keysym.
            (vec![Down(0, 0), Left], vec!["type (1) 0ms"]),
            (
                vec![Down(0, 97), Text(5, Some(12)), Text(5, None)],
                vec!["type (1) 0ms", "set_clipboard (12) 0ms", "set_clipboard 0ms"],
            ),
        ] {
            assert_eq!(told(&inputs), expected);
        }
        assert_eq!(told(&[Down(1, 97); 450]), ["type (200) 199ms", "type (200) 199ms"]);
        assert_eq!(told(&[Down(999, 97); 40]), ["type (31) 29970ms"]);
        let arrows = told(&[Down(1, DOWN); 250]);
        assert_eq!((arrows.len(), arrows[0].matches("Down").count()), (2, MAX_KEYS));
    }
}
