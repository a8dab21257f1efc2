//! Key names that models write: xdotool's (`ctrl+s`, `Page_Down`) and OpenAI's (`["CTRL", "ARROWLEFT"]`).
//!
//! The API reads X11 keysym names and single characters; [`KEY_NAMES`] translates the other names.

/// Most keys that one action holds: all five modifiers. More is a mistake of the model.
pub const MAX_HELD_KEYS: usize = 5;
/// Most key presses of one action, as in the action `key`; for more there is text input.
pub const MAX_PRESSES: usize = 100;
/// Longest text with names of keys, in bytes: [`MAX_PRESSES`] combinations of the longest names.
pub const MAX_KEYS_TEXT: usize = 20_000;

/// Names of modifiers in lower case, and the API's names.
pub const MODIFIER_NAMES: [(&str, &str); 24] = [
    ("alt", "alt"),
    ("alt_l", "alt"),
    ("alt_r", "alt"),
    ("option", "alt"),
    ("altgr", "altgr"),
    ("altgraph", "altgr"),
    ("iso_level3_shift", "altgr"),
    ("ctrl", "ctrl"),
    ("control", "ctrl"),
    ("control_l", "ctrl"),
    ("control_r", "ctrl"),
    ("shift", "shift"),
    ("shift_l", "shift"),
    ("shift_r", "shift"),
    ("cmd", "super"),
    ("command", "super"),
    ("meta", "super"),
    ("meta_l", "super"),
    ("meta_r", "super"),
    ("super", "super"),
    ("super_l", "super"),
    ("super_r", "super"),
    ("win", "super"),
    ("windows", "super"),
];

/// Names of other keys in lower case, and the API's names.
pub const KEY_NAMES: [(&str, &str); 67] = [
    ("\t", "Tab"),
    ("\n", "Return"),
    ("\r", "Return"),
    (" ", "space"),
    ("+", "plus"),
    ("arrow_down", "Down"),
    ("arrow_left", "Left"),
    ("arrow_right", "Right"),
    ("arrow_up", "Up"),
    ("arrowdown", "Down"),
    ("arrowleft", "Left"),
    ("arrowright", "Right"),
    ("arrowup", "Up"),
    ("backquote", "grave"),
    ("backspace", "BackSpace"),
    ("backtick", "grave"),
    ("capslock", "Caps_Lock"),
    ("contextmenu", "Menu"),
    ("dash", "minus"),
    ("del", "Delete"),
    ("delete", "Delete"),
    ("dot", "period"),
    ("down", "Down"),
    ("end", "End"),
    ("enter", "Return"),
    ("equals", "equal"),
    ("esc", "Escape"),
    ("escape", "Escape"),
    ("home", "Home"),
    ("ins", "Insert"),
    ("insert", "Insert"),
    ("left", "Left"),
    ("numlock", "Num_Lock"),
    ("numpad0", "KP_0"),
    ("numpad1", "KP_1"),
    ("numpad2", "KP_2"),
    ("numpad3", "KP_3"),
    ("numpad4", "KP_4"),
    ("numpad5", "KP_5"),
    ("numpad6", "KP_6"),
    ("numpad7", "KP_7"),
    ("numpad8", "KP_8"),
    ("numpad9", "KP_9"),
    ("numpadadd", "KP_Add"),
    ("numpaddecimal", "KP_Decimal"),
    ("numpaddivide", "KP_Divide"),
    ("numpadenter", "KP_Enter"),
    ("numpadmultiply", "KP_Multiply"),
    ("numpadsubtract", "KP_Subtract"),
    ("page_down", "Page_Down"),
    ("page_up", "Page_Up"),
    ("pagedown", "Page_Down"),
    ("pageup", "Page_Up"),
    ("pgdn", "Page_Down"),
    ("pgup", "Page_Up"),
    ("print", "Print"),
    ("printscreen", "Print"),
    ("prtsc", "Print"),
    ("quote", "apostrophe"),
    ("return", "Return"),
    ("right", "Right"),
    ("scrolllock", "Scroll_Lock"),
    ("space", "space"),
    ("spacebar", "space"),
    ("tab", "Tab"),
    ("up", "Up"),
    ("pause", "Pause"),
];

/// Keys that are held together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldKeys {
    /// Modifiers by the API's names, without duplicates.
    pub modifiers: Vec<String>,
    /// Other keys by the API's names, in the order of the model.
    pub others: Vec<String>,
}

impl HeldKeys {
    /// Sorts keys into modifiers and others. Each name may be a combination such as `ctrl+shift`.
    pub fn sort<N: AsRef<str>>(names: &[N]) -> Self {
        let mut held = Self::default();
        for key in names.iter().flat_map(|name| split(name.as_ref())) {
            match lookup(&MODIFIER_NAMES, key) {
                Some(modifier) if held.modifiers.iter().any(|known| known == modifier) => {}
                Some(modifier) => held.modifiers.push(modifier.to_owned()),
                None => held.others.push(lookup(&KEY_NAMES, key).unwrap_or(key).to_owned()),
            }
        }
        held
    }

    /// Returns the number of keys.
    pub fn count(&self) -> usize {
        self.modifiers.len() + self.others.len()
    }

    /// Returns the presses of these keys, as the action `key` reads them. The modifiers are held for each
    /// other key, in the order of the model; modifiers alone are one press.
    pub fn presses(&self) -> Vec<String> {
        let modifiers = self.modifiers.join("+");
        if self.others.is_empty() {
            return vec![modifiers];
        }
        let with_modifiers = |key: &String| {
            if modifiers.is_empty() { key.clone() } else { format!("{modifiers}+{key}") }
        };
        self.others.iter().map(with_modifiers).collect()
    }
}

/// Returns the presses of one combination in the syntax of xdotool. One with a key before its end that is no
/// modifier is returned as it is: the computer refuses it.
pub fn combination_presses(combination: &str) -> Vec<String> {
    let parts = split(combination);
    let is_modifier = |key: &&str| lookup(&MODIFIER_NAMES, key).is_some();
    if parts.split_last().is_some_and(|(_, before)| !before.iter().all(is_modifier)) {
        return vec![combination.to_owned()];
    }
    HeldKeys::sort(&[combination]).presses()
}

/// Splits a text into combinations at white space, as `xdotool key` takes several. White space around a `+`
/// joins (`ctrl + s`). A text of white space alone is these keys.
pub fn combinations(text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return text.chars().map(String::from).collect();
    }
    let mut all: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_open = |last: &str| last.ends_with('+') && !last.ends_with("++");
        let joins = |last: &String| last != "+" && (word.starts_with('+') || is_open(last));
        let is_joined = all.last().is_some_and(joins);
        match all.last_mut() {
            Some(last) if is_joined => last.push_str(word),
            Some(_) | None => all.push(word.to_owned()),
        }
    }
    all
}

/// Splits a combination at `+`; a `+` at its end is the key itself.
fn split(combination: &str) -> Vec<&str> {
    if combination.chars().count() == 1 {
        return vec![combination];
    }
    match combination.strip_suffix("++") {
        Some(before) => before.split('+').chain(["+"]).collect(),
        None => combination.split('+').collect(),
    }
}

/// Returns the second text of the pair with this name, in any case.
fn lookup<'a>(names: &[(&str, &'a str)], name: &str) -> Option<&'a str> {
    names.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, ours)| *ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_vocabularies_become_names_of_the_api() {
        for (names, presses) in [
            // Anthropic, as in the descriptions of its tool.
            (&["a"][..], &["a"][..]),
            (&["Return"], &["Return"]),
            (&["alt+Tab"], &["alt+Tab"]),
            (&["ctrl+s"], &["ctrl+s"]),
            (&["ctrl+shift+Escape"], &["ctrl+shift+Escape"]),
            (&["Up"], &["Up"]),
            (&["KP_0"], &["KP_0"]),
            (&["Page_Down"], &["Page_Down"]),
            (&["BackSpace"], &["BackSpace"]),
            (&["super+l"], &["super+l"]),
            (&["Super_L"], &["super"]),
            (&["ctrl++"], &["ctrl+plus"]),
            (&["+"], &["plus"]),
            (&["-"], &["-"]),
            (&["ctrl+-"], &["ctrl+-"]),
            (&["F5"], &["F5"]),
            (&["ctrl"], &["ctrl"]),
            (&["Control_L+Shift_R+t"], &["ctrl+shift+t"]),
            // OpenAI.
            (&["CTRL", "C"], &["ctrl+C"]),
            (&["ENTER"], &["Return"]),
            (&["ARROWLEFT"], &["Left"]),
            (&["CMD", "SHIFT", "4"], &["super+shift+4"]),
            (&["META", "A"], &["super+A"]),
            (&["OPTION", "BACKSPACE"], &["alt+BackSpace"]),
            (&["PAGEDOWN"], &["Page_Down"]),
            (&["ESC"], &["Escape"]),
            (&["SPACE"], &["space"]),
            (&[" "], &["space"]),
            (&["CTRL", "+"], &["ctrl+plus"]),
            (&["CTRL+A"], &["ctrl+A"]),
            (&["CTRL", "SHIFT"], &["ctrl+shift"]),
            (&["CTRL", "CONTROL", "a"], &["ctrl+a"]),
            (&["a", "CTRL"], &["ctrl+a"]),
            (&["CTRL", "K", "S"], &["ctrl+K", "ctrl+S"]),
            (&["TAB", "TAB", "ENTER"], &["Tab", "Tab", "Return"]),
            (&["NUMPAD7"], &["KP_7"]),
            (&["日"], &["日"]),
            (&["nosuchkey"], &["nosuchkey"]),
            // The agent refuses these.
            (&["ctrl+"], &["ctrl+"]),
            (&[""], &[""]),
        ] {
            assert_eq!(HeldKeys::sort(names).presses(), presses, "{names:?}");
        }
    }

    #[test]
    fn only_modifiers_stand_before_the_end_of_a_combination() {
        for (combination, press) in [
            ("Meta_R+a", "super+a"),
            ("Control_L+Shift_R+t", "ctrl+shift+t"),
            ("ctrl++", "ctrl+plus"),
            ("ctrl", "ctrl"),
            (" ", "space"),
            // The agent refuses these.
            ("Hyper_L+x", "Hyper_L+x"),
            ("ctrl+a+b", "ctrl+a+b"),
            ("a+ctrl", "a+ctrl"),
        ] {
            assert_eq!(combination_presses(combination), [press], "{combination}");
        }
    }

    #[test]
    fn white_space_separates_combinations() {
        for (text, expected) in [
            ("Down Down Return", &["Down", "Down", "Return"][..]),
            ("ctrl + s", &["ctrl+s"]),
            ("ctrl+ s", &["ctrl+s"]),
            ("ctrl +s", &["ctrl+s"]),
            (" ctrl+a  Delete\n", &["ctrl+a", "Delete"]),
            ("ctrl++ a", &["ctrl++", "a"]),
            ("+ a", &["+", "a"]),
            ("+ +", &["+", "+"]),
            (" ", &[" "]),
            ("\n\t", &["\n", "\t"]),
            ("", &[]),
        ] {
            assert_eq!(combinations(text), expected, "{text:?}");
        }
    }

    #[test]
    fn held_keys_are_modifiers_and_others() {
        let held = HeldKeys::sort(&["CTRL", "SPACE", "shift+Control_R"]);
        assert_eq!(held.modifiers, ["ctrl", "shift"]);
        assert_eq!(held.others, ["space"]);
        assert_eq!(held.count(), 3);
        assert_eq!(HeldKeys::sort::<&str>(&[]), HeldKeys::default());
    }

    #[test]
    fn names_are_in_lower_case_and_unique() {
        let names = MODIFIER_NAMES.iter().chain(&KEY_NAMES).map(|(name, _)| *name);
        let mut seen = std::collections::BTreeSet::new();
        for name in names {
            assert_eq!(name, name.to_ascii_lowercase());
            assert!(seen.insert(name), "{name:?} is there twice");
        }
    }
}
