//! Enumerations whose variants are words of a definition file.

/// An enumeration with the word of each variant.
pub trait Choice: Copy + 'static {
    /// Every word with its variant.
    const WORDS: &'static [(&'static str, Self)];

    /// The word of a variant.
    fn word(self) -> &'static str;
}

/// Declares an enumeration: its words are the same for readers, answers and the JSON Schema.
macro_rules! choices {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant),+
        }

        impl $crate::template::choice::Choice for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];

            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }
    };
}

pub(super) use choices;
