//! Readers of fields, which collect every error of a document with its place.

use hotdesk_domain::computer::template::bounds::{MAX_SCRIPT_BYTES, MAX_TEXT_BYTES};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, RuleResult, quoted, shortened};

use super::answer::TemplateError;
use super::choice::Choice;
use super::document::{Node, NodeEntry, NodeValue, entry_path, field_path};
use number::{integer, number};

mod number;
mod object;
mod scope;

pub use object::ObjectReader;
pub use scope::{FileTexts, NameKind, Scope};

/// A field and its value.
#[derive(Clone)]
pub struct FieldReader<'a> {
    node: &'a Node,
    path: String,
    scope: &'a Scope,
}

impl<'a> FieldReader<'a> {
    /// The whole document.
    pub fn root(node: &'a Node, scope: &'a Scope) -> Self {
        Self { node, path: String::new(), scope }
    }

    /// Reports a fault of this field.
    pub fn report(&self, mut fault: Fault) {
        if self.path.is_empty() {
            fault.message = format!("the document {}", fault.message);
        }
        self.scope.push(TemplateError::new(&*self.path, self.node.position, fault));
    }

    /// The value of a rule, or its fault reported.
    pub fn accept<T>(&self, checked: RuleResult<T>) -> Option<T> {
        checked.map_err(|fault| self.report(fault)).ok()
    }

    fn wrong_type(&self, wanted: &str) -> Fault {
        let found = match &self.node.value {
            NodeValue::Null => "nothing".to_owned(),
            NodeValue::Flag(_, text) => format!("the truth value {text}"),
            NodeValue::Number(text) => format!("the number {}", shortened(text)),
            NodeValue::Text(text) => format!("the text {}", quoted(text)),
            NodeValue::List(_) => "a list".to_owned(),
            NodeValue::Map(_) => "a map".to_owned(),
        };
        Fault::new(FaultCode::InvalidType, format!("must be {wanted}, not {found}"))
    }

    /// The text of at most `most` bytes. An empty one is an error.
    fn text(&self, most: usize) -> Option<&'a str> {
        let text = self.any_text(most)?;
        if text.trim().is_empty() {
            self.report(Fault::invalid("must not be empty"));
            return None;
        }
        Some(text)
    }

    /// The text of at most `most` bytes, which may be empty.
    fn any_text(&self, most: usize) -> Option<&'a str> {
        let fault = match &self.node.value {
            NodeValue::Text(text) if text.len() > most => {
                Fault::new(FaultCode::TooLarge, format!("must have at most {most} bytes, not {}", text.len()))
            }
            NodeValue::Text(text) => return Some(text),
            NodeValue::Flag(_, text) | NodeValue::Number(text) => {
                self.wrong_type("a text").hint(format!("write it in quotes: {}", quoted(text)))
            }
            NodeValue::Null | NodeValue::List(_) | NodeValue::Map(_) => self.wrong_type("a text"),
        };
        self.report(fault);
        None
    }

    /// A text without interpolation, of which a rule makes a value.
    pub fn plain<T>(&self, rule: impl Fn(&str) -> RuleResult<T>) -> Option<T> {
        self.accept(rule(self.text(MAX_TEXT_BYTES)?))
    }

    /// A title or description: a text without interpolation.
    pub fn label(&self) -> Option<String> {
        self.text(MAX_TEXT_BYTES).map(str::to_owned)
    }

    /// A duration or a rate. A number gets a hint of the likely unit.
    pub fn timing(&self, rule: impl Fn(&str) -> RuleResult<String>) -> Option<String> {
        if let NodeValue::Number(number) = &self.node.value {
            let hint = format!("write {}s for seconds", shortened(number));
            self.report(self.wrong_type("a text with a unit").hint(hint));
            return None;
        }
        self.plain(rule)
    }

    /// The mode of a file. `0644` is a number in YAML, and counts by its digits. Other numbers are errors: a program
    /// that writes JSON may mean the permissions 0644 by 420.
    pub fn digits<T>(&self, rule: impl Fn(&str) -> RuleResult<T>) -> Option<T> {
        match &self.node.value {
            NodeValue::Number(text) if text.starts_with('0') => self.accept(rule(text)),
            NodeValue::Number(_) => {
                self.report(self.wrong_type("octal digits in quotes").hint("write for example \"0644\""));
                None
            }
            NodeValue::Null
            | NodeValue::Flag(..)
            | NodeValue::Text(_)
            | NodeValue::List(_)
            | NodeValue::Map(_) => self.plain(rule),
        }
    }

    /// A text of at most `most` bytes that may refer to variables. Returns it as it is written.
    pub fn interpolated(&self, most: usize) -> Option<String> {
        self.checked(self.text(most)?, most, |_| Ok(()))
    }

    /// A script that may refer to variables, and that follows a rule afterwards. Returns it as it is written.
    pub fn script(&self, check: impl Fn(&str) -> RuleResult<()>) -> Option<String> {
        self.checked(self.text(MAX_SCRIPT_BYTES)?, MAX_SCRIPT_BYTES, check)
    }

    /// The content of a file or a request: as [`script`](Self::script), but it may be empty.
    pub fn content(&self, check: impl Fn(&str) -> RuleResult<()>) -> Option<String> {
        self.checked(self.any_text(MAX_SCRIPT_BYTES)?, MAX_SCRIPT_BYTES, check)
    }

    fn checked(&self, text: &str, most: usize, check: impl Fn(&str) -> RuleResult<()>) -> Option<String> {
        let expanded = self.expand(text, most)?;
        self.accept(check(&expanded))?;
        Some(text.to_owned())
    }

    /// A text that may refer to variables, and that follows a rule afterwards. Returns what the rule makes of it; with
    /// references, the text as it is written.
    pub fn interpolated_as(&self, rule: impl Fn(&str) -> RuleResult<String>) -> Option<String> {
        self.scope.expand_as(self.text(MAX_TEXT_BYTES)?, rule, |fault| self.report(fault))
    }

    /// Expands the references of a text to at most `most` bytes, and reports the wrong ones.
    pub fn expand(&self, text: &str, most: usize) -> Option<String> {
        self.scope.expand(text, most, |fault| self.report(fault))
    }

    /// The value of an environment variable: a text, which may be empty, a number or a truth value as it is written.
    pub fn scalar(&self) -> Option<String> {
        let text = match &self.node.value {
            NodeValue::Text(text) | NodeValue::Number(text) | NodeValue::Flag(_, text) => text,
            NodeValue::Null | NodeValue::List(_) | NodeValue::Map(_) => {
                self.report(self.wrong_type("a text, a number or a truth value"));
                return None;
            }
        };
        if text.len() > MAX_TEXT_BYTES {
            self.report(Fault::new(
                FaultCode::TooLarge,
                format!("must have at most {MAX_TEXT_BYTES} bytes, not {}", text.len()),
            ));
            return None;
        }
        Some(text.clone())
    }

    /// Whether the value is a map.
    pub fn is_map(&self) -> bool {
        matches!(self.node.value, NodeValue::Map(_))
    }

    /// Whether the value is a number.
    pub fn is_number(&self) -> bool {
        matches!(self.node.value, NodeValue::Number(_))
    }

    /// Whether the value is a list without entries.
    pub fn is_empty_list(&self) -> bool {
        matches!(&self.node.value, NodeValue::List(nodes) if nodes.is_empty())
    }

    /// A whole number from `least` to `most`.
    pub fn whole(&self, least: u64, most: u64) -> Option<u64> {
        let NodeValue::Number(text) = &self.node.value else {
            self.report(self.wrong_type("a whole number"));
            return None;
        };
        let value = integer(text).filter(|value| (least..=most).contains(value));
        if value.is_none() {
            let is_whole = number(text).is_some_and(|value| value.fract() == 0.0);
            let range =
                if most == u64::MAX { format!("{least} or more") } else { format!("from {least} to {most}") };
            let message = format!("must be a whole number {range}, not {}", shortened(text));
            let code = if is_whole { FaultCode::OutOfRange } else { FaultCode::InvalidType };
            self.report(Fault::new(code, message));
        }
        value
    }

    /// A finite number.
    pub fn number(&self) -> Option<f64> {
        if let NodeValue::Number(text) = &self.node.value
            && let Some(value) = number(text)
        {
            return Some(value);
        }
        self.report(self.wrong_type("a finite number"));
        None
    }

    /// A truth value.
    pub fn flag(&self) -> Option<bool> {
        if let NodeValue::Flag(value, _) = self.node.value {
            return Some(value);
        }
        self.report(self.wrong_type("true or false"));
        None
    }

    /// One of the words of a choice.
    pub fn choice<T: Choice>(&self) -> Option<T> {
        self.plain(|word| {
            let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
            let found = T::WORDS.iter().find(|(known, _)| *known == word);
            found.map(|(_, value)| *value).ok_or_else(|| Fault::none_of(word, &words))
        })
    }

    /// The entries of a list that are valid; at most `most` are read.
    pub fn list<T>(&self, most: usize, read: impl Fn(&FieldReader<'a>) -> Option<T>) -> Vec<T> {
        let NodeValue::List(nodes) = &self.node.value else {
            self.report(self.wrong_type("a list"));
            return Vec::new();
        };
        if nodes.len() > most {
            let message = format!("must have at most {most} entries, not {}", nodes.len());
            self.report(Fault::new(FaultCode::TooLarge, message));
        }
        let entries = nodes.iter().take(most).enumerate();
        entries
            .filter_map(|(index, node)| {
                read(&Self { node, path: entry_path(&self.path, index), scope: self.scope })
            })
            .collect()
    }

    /// The entries of a map with free keys: what `key` makes of the key, and `read` of the value.
    pub fn map<K, V>(
        &self,
        key: impl Fn(&KeyReader<'_>) -> Option<K>,
        read: impl Fn(&FieldReader<'a>) -> Option<V>,
    ) -> Vec<(K, V)> {
        let NodeValue::Map(entries) = &self.node.value else {
            self.report(self.wrong_type("a map"));
            return Vec::new();
        };
        let read_entry = |entry: &'a NodeEntry| {
            let field =
                Self { node: &entry.node, path: field_path(&self.path, &entry.key), scope: self.scope };
            // Both are read, so that both report their faults.
            let key = key(&KeyReader { entry, path: &field.path, scope: self.scope });
            let value = read(&field);
            Some((key?, value?))
        };
        entries.iter().filter_map(read_entry).collect()
    }

    /// The fields of an object. A field that `read` does not ask for is an error.
    pub fn object<T>(&self, read: impl FnOnce(&ObjectReader<'a>) -> Option<T>) -> Option<T> {
        let NodeValue::Map(entries) = &self.node.value else {
            self.report(self.wrong_type("a map"));
            return None;
        };
        let object = ObjectReader::new(self.clone(), entries);
        let value = read(&object);
        object.report_unknown();
        value
    }

    /// Records a name, which must be the only one of its kind in the document. Returns it.
    ///
    /// # Errors
    /// `Duplicate` for a further one.
    pub fn unique(&self, kind: NameKind, name: String) -> RuleResult<String> {
        self.scope.unique(kind, name)
    }

    /// The text of a file beside the definition file, as a content without references.
    ///
    /// # Errors
    /// `Unsupported` where only the document is known; `InvalidValue` or `TooLarge` for a file that cannot be used.
    pub fn text_beside(&self, path: &str) -> RuleResult<String> {
        self.scope.text_beside(path)
    }

    /// Records that this field names something, which [`Scope::finish`] looks for.
    pub fn refer(&self, kind: NameKind, name: &str) {
        self.scope.refer(kind, name, &self.path, self.node.position);
    }

    /// A name that is declared.
    pub fn declared(&self, kind: NameKind, rule: impl Fn(&str) -> RuleResult<String>) -> Option<String> {
        self.plain(|text| self.unique(kind, rule(text)?))
    }

    /// A name of something that the document declares elsewhere.
    pub fn reference(&self, kind: NameKind, rule: impl Fn(&str) -> RuleResult<String>) -> Option<String> {
        let name = self.plain(rule)?;
        self.refer(kind, &name);
        Some(name)
    }
}

/// The key of an entry of a map with free keys.
pub struct KeyReader<'a> {
    entry: &'a NodeEntry,
    path: &'a str,
    scope: &'a Scope,
}

impl KeyReader<'_> {
    fn report(&self, fault: Fault) {
        let fault = Fault { message: format!("the name {}", fault.message), ..fault };
        self.scope.push(TemplateError::new(self.path, self.entry.position, fault));
    }

    /// A key without interpolation, of which a rule makes a value.
    pub fn plain<T>(&self, rule: impl Fn(&str) -> RuleResult<T>) -> Option<T> {
        rule(&self.entry.key).map_err(|fault| self.report(fault)).ok()
    }

    /// A key that may refer to variables, as [`FieldReader::interpolated_as`].
    pub fn interpolated_as(&self, rule: impl Fn(&str) -> RuleResult<String>) -> Option<String> {
        let key = &*self.entry.key;
        if key.len() > MAX_TEXT_BYTES {
            let message = format!("must have at most {MAX_TEXT_BYTES} bytes, not {}", key.len());
            self.report(Fault::new(FaultCode::TooLarge, message));
            return None;
        }
        self.scope.expand_as(key, rule, |fault| self.report(fault))
    }
}
