//! Faults of a definition file: code, message and hint.

/// Machine-readable kind of a fault (docs/templates.md#errors).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultCode {
    /// The text is no YAML and no JSON.
    Syntax,
    /// A document, text or number of entries is larger than its bound.
    TooLarge,
    /// A required field is absent.
    Required,
    /// A field is not known here.
    UnknownField,
    /// A value has another type than the field.
    InvalidType,
    /// A value is none of the words or numbers that the field has.
    InvalidEnum,
    /// A value breaks the rule of its field.
    InvalidValue,
    /// A number is outside of its range.
    OutOfRange,
    /// A value names something that the document does not define.
    UnknownRef,
    /// A name, path or port is there twice.
    Duplicate,
    /// Two fields exclude each other.
    Conflict,
    /// A path, port or header field belongs to the system.
    Reserved,
    /// A known value that hotdesk cannot fulfil.
    Unsupported,
}

impl FaultCode {
    /// Every code, in the order of the page.
    pub const ALL: [Self; 13] = [
        Self::Syntax,
        Self::TooLarge,
        Self::Required,
        Self::UnknownField,
        Self::InvalidType,
        Self::InvalidEnum,
        Self::InvalidValue,
        Self::OutOfRange,
        Self::UnknownRef,
        Self::Duplicate,
        Self::Conflict,
        Self::Reserved,
        Self::Unsupported,
    ];

    /// The word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::TooLarge => "too_large",
            Self::Required => "required",
            Self::UnknownField => "unknown_field",
            Self::InvalidType => "invalid_type",
            Self::InvalidEnum => "invalid_enum",
            Self::InvalidValue => "invalid_value",
            Self::OutOfRange => "out_of_range",
            Self::UnknownRef => "unknown_ref",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Reserved => "reserved",
            Self::Unsupported => "unsupported",
        }
    }
}

/// Fault of one value. The place is added by the reader of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub code: FaultCode,
    /// Description, as the end of a sentence that begins with the field.
    pub message: String,
    /// Text to write instead, if one is likely.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault without a hint.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// A value that breaks the rule of its field.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(FaultCode::InvalidValue, message)
    }

    /// A value that is none of `words`, with the nearest word as a hint.
    pub fn none_of(value: &str, words: &[&str]) -> Self {
        let fault = Self::new(
            FaultCode::InvalidEnum,
            format!("must be one of {}, not {}", words.join(", "), quoted(value)),
        );
        match nearest(value, words) {
            Some(word) => fault.hint(format!("did you mean {word}?")),
            None => fault,
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Result of a rule of one value.
pub type RuleResult<T> = Result<T, Fault>;

/// Longest quoted value in a message, in characters: a line of a terminal holds it beside the rule.
const MAX_QUOTED: usize = 40;

/// A value as messages show it: in quotes, escaped, and shortened.
pub fn quoted(value: &str) -> String {
    match value.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}

/// A number or a word of plain characters as messages show it: shortened, without quotes.
pub fn shortened(value: &str) -> String {
    match value.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// Longest word that is compared with known ones, in bytes: the comparison takes quadratic time.
const MAX_COMPARED: usize = 64;

/// The word that a misspelled one probably means: at most a third of its letters differ.
pub fn nearest<'a>(value: &str, words: &[&'a str]) -> Option<&'a str> {
    let value = value.to_ascii_lowercase();
    if value.len() > MAX_COMPARED {
        return None;
    }
    let ranked = words.iter().map(|word| (distance(&value, word), *word));
    ranked.min().filter(|(distance, word)| distance * 3 <= word.len()).map(|(_, word)| word)
}

/// Edit distance of two words (Levenshtein), in bytes.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, byte) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(byte != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_word_gets_the_nearest_one() {
        let words = ["always", "on-failure", "no"];
        assert_eq!(nearest("alway", &words), Some("always"));
        assert_eq!(nearest("on_failure", &words), Some("on-failure"));
        assert_eq!(nearest("sometimes", &words), None);
        assert_eq!(nearest(&"a".repeat(100_000), &words), None);
        let fault = Fault::none_of("alway", &words);
        assert_eq!(fault.message, "must be one of always, on-failure, no, not \"alway\"");
        assert_eq!(fault.hint.as_deref(), Some("did you mean always?"));
    }

    #[test]
    fn a_long_value_is_quoted_in_part() {
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
        assert_eq!(quoted(&"ä".repeat(50)), format!("\"{}\"…", "ä".repeat(40)));
        assert_eq!(shortened("3000"), "3000");
        assert_eq!(shortened(&"1".repeat(50)), format!("{}…", "1".repeat(40)));
    }

    #[test]
    fn each_code_has_its_own_word() {
        let mut words: Vec<&str> = FaultCode::ALL.iter().map(|code| code.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), FaultCode::ALL.len());
    }
}
