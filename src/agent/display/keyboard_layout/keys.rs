//! Key names and chords: parsing, and conversion between characters and keysyms.
//!
//! Accepts both common vocabularies (`Enter`, `ArrowUp`; `Return`, `Page_Up`), every X11 keysym name, and
//! single characters. Needs no X server.

use std::collections::HashMap;
use std::sync::OnceLock;

use xkeysym::{Keysym, key};

use hotdesk_domain::error::{Error, Result};

/// Longest key name or chord that is parsed; the longest keysym name has 29 characters.
const MAX_NAME_CHARS: usize = 200;
/// Keysyms below this are characters of the legacy sets. From here to [`UNICODE`] keysyms are functions, not
/// text.
const FUNCTIONS: u32 = 0xfd00;
/// Last function of the core keysyms.
const FUNCTIONS_END: u32 = 0xffff;
/// Keysyms that change the next character.
const DEAD_KEYS: std::ops::RangeInclusive<u32> = 0xfe50..=0xfe9f;
/// Keysyms of keys for media and the like (XF86keysym.h).
const MEDIA_KEYS: std::ops::RangeInclusive<u32> = 0x1008_fe00..=0x1008_ffff;
/// First keysym that is a Unicode code point.
const UNICODE: u32 = 0x0100_0000;
/// Last Unicode keysym.
const UNICODE_END: u32 = 0x0110_ffff;

/// A key that is held while another key or a button is pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modifier {
    /// Control.
    Ctrl,
    /// Shift.
    Shift,
    /// Alt, or Option.
    Alt,
    /// Super, Command, or the Windows key.
    Super,
    /// The level-3 shift.
    AltGr,
}

impl Modifier {
    /// The keysym of the key that is pressed for this modifier.
    pub(in crate::display) fn keysym(self) -> u32 {
        match self {
            Self::Ctrl => key::Control_L,
            Self::Shift => key::Shift_L,
            Self::Alt => key::Alt_L,
            Self::Super => key::Super_L,
            Self::AltGr => key::ISO_Level3_Shift,
        }
    }

    /// The modifier of a key; `None` for other keys, also for locks.
    pub fn of_keysym(keysym: u32) -> Option<Self> {
        match keysym {
            key::Control_L | key::Control_R => Some(Self::Ctrl),
            key::Shift_L | key::Shift_R => Some(Self::Shift),
            key::Alt_L | key::Alt_R => Some(Self::Alt),
            key::Super_L | key::Super_R | key::Meta_L | key::Meta_R | key::Hyper_L | key::Hyper_R => {
                Some(Self::Super)
            }
            key::ISO_Level3_Shift | key::Mode_switch => Some(Self::AltGr),
            _ => None,
        }
    }

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ctrl => "ctrl",
            Self::Shift => "shift",
            Self::Alt => "alt",
            Self::Super => "super",
            Self::AltGr => "altgr",
        }
    }
}

/// Keys that are pressed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chord {
    /// Modifiers, in the order in which they are pressed.
    pub(in crate::display) modifiers: Vec<Modifier>,
    /// The keysym that is pressed with them.
    pub(in crate::display) keysym: u32,
}

/// The keysym of a character; `None` for control characters and noncharacters.
pub(in crate::display) fn of_char(character: char) -> Option<u32> {
    let code = u32::from(character);
    match code {
        0x20..=0x7e | 0xa0..=0xff => Some(code),
        0..=0x1f | 0x7f..=0x9f | 0xfdd0..=0xfdef => None,
        _ if code & 0xfffe == 0xfffe => None,
        _ => Some(UNICODE + code),
    }
}

/// The character of a keysym in any encoding; `None` for function keys.
pub(in crate::display) fn to_char(keysym: u32) -> Option<char> {
    let text = (0x20..FUNCTIONS).contains(&keysym) || (UNICODE..=UNICODE_END).contains(&keysym);
    if text { Keysym::new(keysym).key_char() } else { None }
}

/// Parses a key or a chord such as `ctrl+c`.
///
/// # Errors
/// `Invalid` for an empty, too long or unknown name; the message quotes the unknown part.
pub fn parse(text: &str) -> Result<Chord> {
    if text.is_empty() {
        return Err(Error::invalid("key must not be empty"));
    }
    if text.chars().nth(MAX_NAME_CHARS).is_some() {
        return Err(Error::invalid(format!("key is longer than {MAX_NAME_CHARS} characters")));
    }
    let mut parts = split(text);
    let last = parts.pop().unwrap_or_default();
    let mut modifiers = Vec::new();
    for part in parts {
        let modifier = modifier(part).ok_or_else(|| {
            Error::invalid(format!(
                "unknown modifier {part:?} in key {text:?}: use ctrl, shift, alt or super"
            ))
        })?;
        if !modifiers.contains(&modifier) {
            modifiers.push(modifier);
        }
    }
    let mut keysym =
        single(last).ok_or_else(|| Error::invalid(format!("unknown key {last:?} in key {text:?}")))?;
    // Clients write `ctrl+C` for ctrl and c. A client that wants Shift names it.
    let capital = (u32::from('A')..=u32::from('Z')).contains(&keysym);
    if capital && !modifiers.is_empty() {
        keysym += u32::from('a') - u32::from('A');
    }
    Ok(Chord { modifiers, keysym })
}

/// The name of a key or chord with `*` in place of a key that types a character or takes part in composing
/// one.
pub fn masked(text: &str) -> String {
    let Ok(chord) = parse(text) else { return String::from("*") };
    let last = if types(chord.keysym) { "*" } else { split(text).pop().unwrap_or("*") };
    masked_chord(&chord.modifiers, last)
}

/// The name of a key by its keysym; `None` for one that types a character or takes part in composing one, and
/// for an unknown one.
pub fn name_unless_typing(keysym: u32) -> Option<String> {
    let name = Keysym::new(keysym).name().filter(|_| !types(keysym))?;
    Some(name.replacen("XK_", "", 1))
}

/// The name of a chord by the names of its parts.
pub fn masked_chord(modifiers: &[Modifier], last: &str) -> String {
    modifiers.iter().map(|modifier| modifier.name()).chain([last]).collect::<Vec<_>>().join("+")
}

/// Whether a key types a character or takes part in composing one. Only ranges of other keys are named.
fn types(keysym: u32) -> bool {
    let function = (FUNCTIONS..=FUNCTIONS_END).contains(&keysym);
    let dead = DEAD_KEYS.contains(&keysym);
    let keypad = (key::KP_Space..=key::KP_Equal).contains(&keysym) && keysym != key::KP_Enter;
    let braille = (key::braille_dot_1..=key::braille_dot_10).contains(&keysym);
    let named = (function && !dead && !keypad && !braille) || MEDIA_KEYS.contains(&keysym);
    !named
}

/// Parses names of modifiers; duplicates are dropped.
///
/// # Errors
/// `Invalid`; the message quotes the unknown name.
pub fn modifiers(names: &[String]) -> Result<Vec<Modifier>> {
    let mut all = Vec::new();
    for name in names.iter().take(MAX_NAME_CHARS) {
        let modifier = modifier(name.trim()).ok_or_else(|| {
            Error::invalid(format!("unknown modifier {name:?}: use ctrl, shift, alt or super"))
        })?;
        if !all.contains(&modifier) {
            all.push(modifier);
        }
    }
    Ok(all)
}

/// Splits at `+`, or at `-` after a modifier (`ctrl-c`); the separator at the end of a chord is its own key.
fn split(text: &str) -> Vec<&str> {
    if text.chars().count() == 1 {
        return vec![text];
    }
    let begins_with_modifier = |(first, _): (&str, &str)| modifier(first.trim()).is_some();
    let is_dashed = !text.contains('+') && text.split_once('-').is_some_and(begins_with_modifier);
    let separator = if is_dashed { "-" } else { "+" };
    let mut parts: Vec<&str> = match text.strip_suffix(separator).filter(|it| it.ends_with(separator)) {
        Some(before) => before[..before.len() - 1].split(separator).chain([separator]).collect(),
        None => text.split(separator).collect(),
    };
    for part in &mut parts {
        *part = part.trim();
    }
    parts
}

fn modifier(name: &str) -> Option<Modifier> {
    match name.to_ascii_lowercase().as_str() {
        "ctrl" | "control" | "control_l" | "control_r" => Some(Modifier::Ctrl),
        "shift" | "shift_l" | "shift_r" => Some(Modifier::Shift),
        "alt" | "option" | "alt_l" | "alt_r" => Some(Modifier::Alt),
        "super" | "cmd" | "command" | "win" | "windows" | "meta" | "super_l" | "super_r" | "meta_l"
        | "meta_r" => Some(Modifier::Super),
        "altgr" | "iso_level3_shift" => Some(Modifier::AltGr),
        _ => None,
    }
}

/// Parses one key: a character, an alias, or an X11 name.
fn single(name: &str) -> Option<u32> {
    let mut characters = name.chars();
    match (characters.next(), characters.next()) {
        (None, _) => None,
        (Some('\n' | '\r'), None) => Some(key::Return),
        (Some('\t'), None) => Some(key::Tab),
        (Some(character), None) => of_char(character),
        (Some(_), Some(_)) => alias(&name.to_ascii_lowercase()).or_else(|| x11(name)),
    }
}

/// Names that are not X11's, or that X11 spells in another case. `lower` is in lower case.
fn alias(lower: &str) -> Option<u32> {
    Some(match lower {
        "enter" | "return" => key::Return,
        "esc" | "escape" => key::Escape,
        "backspace" | "back_space" => key::BackSpace,
        "del" | "delete" => key::Delete,
        "ins" | "insert" => key::Insert,
        "up" | "arrowup" | "arrow_up" | "uparrow" => key::Up,
        "down" | "arrowdown" | "arrow_down" | "downarrow" => key::Down,
        "left" | "arrowleft" | "arrow_left" | "leftarrow" => key::Left,
        "right" | "arrowright" | "arrow_right" | "rightarrow" => key::Right,
        "pageup" | "page_up" | "pgup" | "prior" => key::Page_Up,
        "pagedown" | "page_down" | "pgdn" | "pgdown" | "next" => key::Page_Down,
        "spacebar" => key::space,
        "capslock" => key::Caps_Lock,
        "numlock" => key::Num_Lock,
        "scrolllock" => key::Scroll_Lock,
        "printscreen" | "print_screen" | "prtsc" => key::Print,
        "contextmenu" | "menu" => key::Menu,
        // Greek and Cyrillic names would shadow these X11 names in lower case.
        "plus" => key::plus,
        "minus" => key::minus,
        other => return modifier(other).filter(|_| !other.contains('_')).map(Modifier::keysym),
    })
}

/// An X11 keysym name: exact, or in any case where that is unambiguous.
fn x11(name: &str) -> Option<u32> {
    let keysym = names().get(name).or_else(|| names().get(&name.to_lowercase())).copied()?;
    // One keysym per character, because the key map is searched by it.
    Some(to_char(keysym).and_then(of_char).unwrap_or(keysym))
}

fn names() -> &'static HashMap<String, u32> {
    static NAMES: OnceLock<HashMap<String, u32>> = OnceLock::new();
    NAMES.get_or_init(|| {
        // The ranges of keysymdef.h and XF86keysym.h.
        let blocks = [0..=0xffff, 0x1000_0000..=0x1000_ffff, 0x1008_0000..=0x1008_ffff];
        let named: Vec<(String, u32)> = blocks
            .into_iter()
            .flatten()
            .filter_map(|raw| Some((Keysym::new(raw).name()?.replacen("XK_", "", 1), raw)))
            .collect();
        let mut lower: HashMap<String, Option<u32>> = HashMap::new();
        for (name, raw) in &named {
            lower
                .entry(name.to_lowercase())
                .and_modify(|known| *known = known.filter(|known| known == raw))
                .or_insert(Some(*raw));
        }
        let unambiguous = lower.into_iter().filter_map(|(name, raw)| Some((name, raw?)));
        // Exact names last: they win over another name's lower-case form.
        unambiguous.chain(named).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_vocabularies_in_any_case() {
        use Modifier::{Alt, AltGr, Ctrl, Shift, Super};
        let table: &[(&str, &[Modifier], u32)] = &[
            ("Enter", &[], key::Return),
            ("RETURN", &[], key::Return),
            ("KP_Enter", &[], key::KP_Enter),
            ("Tab", &[], key::Tab),
            ("esc", &[], key::Escape),
            ("Escape", &[], key::Escape),
            ("Backspace", &[], key::BackSpace),
            ("BackSpace", &[], key::BackSpace),
            ("delete", &[], key::Delete),
            ("Up", &[], key::Up),
            ("ArrowUp", &[], key::Up),
            ("Page_Up", &[], key::Page_Up),
            ("PageDown", &[], key::Page_Down),
            ("Prior", &[], key::Page_Up),
            ("home", &[], key::Home),
            ("END", &[], key::End),
            ("F1", &[], key::F1),
            ("f12", &[], key::F12),
            ("F24", &[], key::F24),
            ("space", &[], 0x20),
            (" ", &[], 0x20),
            ("a", &[], 0x61),
            ("A", &[], 0x41),
            ("+", &[], 0x2b),
            ("plus", &[], 0x2b),
            ("PLUS", &[], 0x2b),
            ("-", &[], 0x2d),
            ("ctrl+c", &[Ctrl], 0x63),
            ("Ctrl+C", &[Ctrl], 0x63),
            ("ctrl+shift+C", &[Ctrl, Shift], 0x63),
            ("ctrl+shift+Tab", &[Ctrl, Shift], key::Tab),
            ("control+Return", &[Ctrl], key::Return),
            ("ctrl+ctrl+a", &[Ctrl], 0x61),
            ("ctrl++", &[Ctrl], 0x2b),
            ("ctrl-c", &[Ctrl], 0x63),
            ("Ctrl-Shift-t", &[Ctrl, Shift], 0x74),
            ("ctrl--", &[Ctrl], 0x2d),
            ("ctrl+-", &[Ctrl], 0x2d),
            ("-", &[], 0x2d),
            ("ctrl+plus", &[Ctrl], 0x2b),
            ("shift + Home", &[Shift], key::Home),
            ("alt+F4", &[Alt], key::F4),
            ("cmd+l", &[Super], 0x6c),
            ("Meta+L", &[Super], 0x6c),
            ("win", &[], key::Super_L),
            ("Super_L", &[], key::Super_L),
            ("Shift_R+a", &[Shift], 0x61),
            ("ctrl", &[], key::Control_L),
            ("ctrl+shift", &[Ctrl], key::Shift_L),
            ("AltGr+e", &[AltGr], 0x65),
            ("eacute", &[], 0xe9),
            ("Eacute", &[], 0xc9),
            ("EuroSign", &[], UNICODE + 0x20ac),
            ("eurosign", &[], UNICODE + 0x20ac),
            ("Greek_alpha", &[], UNICODE + 0x3b1),
            ("dead_acute", &[], key::dead_acute),
            ("Caps_Lock", &[], key::Caps_Lock),
            ("XF86AudioMute", &[], 0x1008_ff12),
            ("xf86audiomute", &[], 0x1008_ff12),
            ("日", &[], UNICODE + 0x65e5),
            ("😀", &[], UNICODE + 0x1f600),
            ("\n", &[], key::Return),
        ];
        for (name, modifiers, keysym) in table {
            let wanted = Chord { modifiers: modifiers.to_vec(), keysym: *keysym };
            assert_eq!(parse(name).unwrap_or_else(|error| panic!("{name:?}: {error}")), wanted, "{name:?}");
        }
    }

    #[test]
    fn every_key_that_a_model_names_is_known() {
        use hotdesk_domain::desktop::key_name::{KEY_NAMES, MODIFIER_NAMES};
        for (name, ours) in MODIFIER_NAMES.iter().chain(&KEY_NAMES) {
            assert!(parse(ours).is_ok(), "{name:?} is {ours:?}");
        }
        for (name, ours) in MODIFIER_NAMES {
            assert!(modifiers(&[ours.to_owned()]).is_ok(), "{name:?} is {ours:?}");
        }
    }

    #[test]
    fn keys_that_type_have_no_name() {
        for (keysym, expected) in [
            (key::Return, Some("Return")),
            (key::BackSpace, Some("BackSpace")),
            (key::KP_Enter, Some("KP_Enter")),
            (key::F12, Some("F12")),
            (key::Delete, Some("Delete")),
            (0x1008_ff12, Some("XF86AudioMute")),
            (0, None),
            (0x20, None),
            (0x61, None),
            (key::KP_1, None),
            (key::dead_acute, None),
            (key::dead_greek, None),
            (key::braille_dot_1, None),
            (key::Greek_alpha, None),
            (UNICODE + 0x20ac, None),
            (u32::MAX, None),
        ] {
            assert_eq!(name_unless_typing(keysym).as_deref(), expected, "{keysym:#x}");
        }
        assert_eq!(masked_chord(&[Modifier::Ctrl, Modifier::Shift], "*"), "ctrl+shift+*");
        for name in ["ctrl", "shift", "alt", "super", "altgr"] {
            let keysym = single(name).expect("a key");
            assert_eq!(Modifier::of_keysym(keysym).map(Modifier::name), Some(name));
        }
    }

    #[test]
    fn errors_name_the_unknown_part() {
        for (name, expected) in [
            ("", "empty"),
            ("nosuchkey", "nosuchkey"),
            ("ctrl+nosuchkey", "nosuchkey"),
            ("hyper+a", "hyper"),
            ("a+b", "\"a\""),
            ("ctrl+", "\"\""),
            ("++a", "\"\""),
            ("ctrl-nosuchkey", "nosuchkey"),
            ("\u{7f}", "key"),
            ("\0", "key"),
        ] {
            let error = parse(name).expect_err(name);
            assert!(error.message.contains(expected), "{name:?}: {error}");
        }
        assert!(parse(&"x".repeat(100_000)).is_err());
    }
}
