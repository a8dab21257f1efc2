//! Readers of fields, which collect every error of a document with its place.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use hotdesk_domain::computer::template::bounds::{MAX_ERRORS, MAX_TEXT_BYTES};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, RuleResult, nearest, quoted};
use hotdesk_domain::computer::template::interpolation::{self, ReferenceKind};

use super::answer::{Position, TemplateError};
use super::choice::Choice;
use super::document::{Node, NodeEntry, NodeValue, entry_path, field_path};

/// What has a name that must be unique in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameKind {
    /// An application.
    App,
    /// A service of any application.
    Service,
    /// A secret.
    Secret,
    /// A trigger.
    Trigger,
    /// A terminal.
    Terminal,
    /// A stream.
    Stream,
    /// The path of a file.
    File,
    /// A port in the guest.
    Port,
}

impl NameKind {
    fn noun(self) -> &'static str {
        match self {
            Self::App => "application",
            Self::Service => "service",
            Self::Secret => "secret",
            Self::Trigger => "trigger",
            Self::Terminal => "terminal",
            Self::Stream => "stream",
            Self::File => "file",
            Self::Port => "port",
        }
    }
}

/// A value that names a secret or a service.
struct NameUse {
    kind: NameKind,
    name: String,
    field: String,
    position: Position,
}

/// What the readers of one document share.
#[derive(Default)]
pub struct Scope {
    errors: RefCell<Vec<TemplateError>>,
    /// Errors beside those of `errors`, which has at most [`MAX_ERRORS`].
    unlisted: Cell<usize>,
    variables: RefCell<BTreeMap<String, String>>,
    /// Literal values after interpolation, and `None` for secrets; absent while `env` itself is read.
    environment: RefCell<Option<BTreeMap<String, Option<String>>>>,
    names: RefCell<BTreeSet<(NameKind, String)>>,
    uses: RefCell<Vec<NameUse>>,
}

impl Scope {
    /// A scope that has the errors of the document's text.
    pub fn with(errors: Vec<TemplateError>) -> Self {
        Self { errors: RefCell::new(errors), ..Self::default() }
    }

    /// Sets the variables that texts refer to.
    pub fn define_variables(&self, variables: BTreeMap<String, String>) {
        *self.variables.borrow_mut() = variables;
    }

    /// Sets the environment that texts refer to; `None` is the value of a secret.
    pub fn define_environment(&self, environment: BTreeMap<String, Option<String>>) {
        *self.environment.borrow_mut() = Some(environment);
    }

    /// Adds an error while the list has room, and counts it otherwise.
    fn push(&self, error: TemplateError) {
        if self.is_full() {
            self.unlisted.set(self.unlisted.get() + 1);
        } else {
            self.errors.borrow_mut().push(error);
        }
    }

    /// Whether no more errors are listed, so that their hints, which take time, are not needed.
    fn is_full(&self) -> bool {
        self.errors.borrow().len() >= MAX_ERRORS
    }

    /// Adds the nearest of `known` names as a hint.
    fn suggest(&self, fault: Fault, name: &str, known: &[&str]) -> Fault {
        if self.is_full() {
            return fault;
        }
        match nearest(name, known) {
            Some(near) => fault.hint(format!("did you mean {near}?")),
            None => fault,
        }
    }

    /// The errors in the order of the document, with those of names that nothing defines.
    pub fn finish(self) -> Vec<TemplateError> {
        let names = self.names.take();
        for NameUse { kind, name, field, position } in self.uses.take() {
            if names.contains(&(kind, name.clone())) {
                continue;
            }
            let noun = kind.noun();
            let known: Vec<&str> =
                names.iter().filter(|(other, _)| *other == kind).map(|(_, name)| &**name).collect();
            let message = format!("names the {noun} {}, which the template does not have", quoted(&name));
            let fault = self.suggest(Fault::new(FaultCode::UnknownRef, message), &name, &known);
            let needs_hint = fault.hint.is_none() && kind == NameKind::Secret;
            let fault = if needs_hint { fault.hint("add it to secrets") } else { fault };
            self.push(TemplateError::new(field, position, fault));
        }
        let mut errors = self.errors.into_inner();
        errors.sort_by_key(|error| (error.line, error.column));
        if self.unlisted.get() > 0 {
            let count = errors.len() + self.unlisted.get();
            let message = format!("the document has {count} errors, of which {} are listed", errors.len());
            errors.push(TemplateError::new("", Position::START, Fault::new(FaultCode::TooLarge, message)));
        }
        errors
    }

    fn value(&self, kind: ReferenceKind, name: &str) -> RuleResult<String> {
        let unknown = |message: String, known: Vec<&str>| {
            Err(self.suggest(Fault::new(FaultCode::UnknownRef, message), name, &known))
        };
        match kind {
            ReferenceKind::Variable => {
                let variables = self.variables.borrow();
                match variables.get(name) {
                    Some(value) => Ok(value.clone()),
                    None => unknown(
                        format!("refers to ${{var.{name}}}, which vars does not have"),
                        variables.keys().map(String::as_str).collect(),
                    ),
                }
            }
            ReferenceKind::Environment => match self.environment.borrow().as_ref() {
                None => Err(Fault::invalid(format!(
                    "refers to ${{env.{name}}}, but values of env may only refer to variables"
                ))
                .hint("write ${var.NAME}")),
                Some(environment) => match environment.get(name) {
                    Some(Some(value)) => Ok(value.clone()),
                    Some(None) => Err(Fault::new(
                        FaultCode::UnknownRef,
                        format!("refers to ${{env.{name}}}, which is a secret and no literal value"),
                    )),
                    None => unknown(
                        format!("refers to ${{env.{name}}}, which env does not have"),
                        environment.keys().map(String::as_str).collect(),
                    ),
                },
            },
        }
    }
}

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
    pub fn report(&self, fault: Fault) {
        self.report_at(self.node.position, fault);
    }

    fn report_at(&self, position: Position, mut fault: Fault) {
        if self.path.is_empty() {
            fault.message = format!("the document {}", fault.message);
        }
        self.scope.push(TemplateError::new(&*self.path, position, fault));
    }

    /// The value of a rule, or its fault reported.
    pub fn accept<T>(&self, checked: RuleResult<T>) -> Option<T> {
        checked.map_err(|fault| self.report(fault)).ok()
    }

    fn wrong_type(&self, wanted: &str) -> Fault {
        let found = match &self.node.value {
            NodeValue::Null => "nothing".to_owned(),
            NodeValue::Flag(_, text) => format!("the truth value {text}"),
            NodeValue::Number(text) => format!("the number {}", quoted(text).trim_matches('"')),
            NodeValue::Text(text) => format!("the text {}", quoted(text)),
            NodeValue::List(_) => "a list".to_owned(),
            NodeValue::Map(_) => "a map".to_owned(),
        };
        Fault::new(FaultCode::InvalidType, format!("must be {wanted}, not {found}"))
    }

    /// The text of at most `most` bytes. An empty one is an error.
    fn text(&self, most: usize) -> Option<&'a str> {
        let fault = match &self.node.value {
            NodeValue::Text(text) if text.trim().is_empty() => Fault::invalid("must not be empty"),
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
            self.report(self.wrong_type("a text with a unit").hint(format!("write {number}s for seconds")));
            return None;
        }
        self.plain(rule)
    }

    /// The mode of a file. A number counts by its digits, because `0644` is a number in YAML.
    pub fn digits<T>(&self, rule: impl Fn(&str) -> RuleResult<T>) -> Option<T> {
        match &self.node.value {
            NodeValue::Number(text) => self.accept(rule(text)),
            NodeValue::Null
            | NodeValue::Flag(..)
            | NodeValue::Text(_)
            | NodeValue::List(_)
            | NodeValue::Map(_) => self.plain(rule),
        }
    }

    /// A text of at most `most` bytes that may refer to variables. Returns it as it is written.
    pub fn interpolated(&self, most: usize) -> Option<String> {
        let text = self.text(most)?;
        self.expand(text).map(|_| text.to_owned())
    }

    /// A text that may refer to variables, and that follows a rule afterwards. Returns what the rule makes of it; with
    /// references, the text as it is written.
    pub fn interpolated_as(&self, rule: impl Fn(&str) -> RuleResult<String>) -> Option<String> {
        let text = self.text(MAX_TEXT_BYTES)?;
        let expanded = self.expand(text)?;
        let value = self.accept(rule(&expanded))?;
        Some(if expanded == text { value } else { text.to_owned() })
    }

    /// Expands the references of a text, and reports the wrong ones.
    pub fn expand(&self, text: &str) -> Option<String> {
        interpolation::expand(text, |kind, name| self.scope.value(kind, name))
            .map_err(|faults| faults.into_iter().for_each(|fault| self.report(fault)))
            .ok()
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
            let message = format!("must be a whole number {range}, not {text}");
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

    /// The entries of a map with free keys: the key as a rule accepts it, and the value.
    pub fn map<K: Ord, V>(
        &self,
        key: impl Fn(&str) -> RuleResult<K>,
        read: impl Fn(&FieldReader<'a>) -> Option<V>,
    ) -> Vec<(K, V)> {
        let NodeValue::Map(entries) = &self.node.value else {
            self.report(self.wrong_type("a map"));
            return Vec::new();
        };
        let read_entry = |entry: &'a NodeEntry| {
            let field =
                Self { node: &entry.node, path: field_path(&self.path, &entry.key), scope: self.scope };
            let key = key(&entry.key).map_err(|fault| {
                let fault = Fault { message: format!("the name {}", fault.message), ..fault };
                field.report_at(entry.position, fault);
            });
            // Both are read, so that both report their faults.
            let value = read(&field);
            Some((key.ok()?, value?))
        };
        entries.iter().filter_map(read_entry).collect()
    }

    /// The fields of an object. A field that `read` does not ask for is an error.
    pub fn object<T>(&self, read: impl FnOnce(&ObjectReader<'a>) -> Option<T>) -> Option<T> {
        let NodeValue::Map(entries) = &self.node.value else {
            self.report(self.wrong_type("a map"));
            return None;
        };
        let object =
            ObjectReader { of: self.clone(), entries, asked: RefCell::default(), is_open: Cell::new(false) };
        let value = read(&object);
        if object.is_open.get() {
            return value;
        }
        let asked = object.asked.into_inner();
        for entry in entries.iter().filter(|entry| !asked.contains(&&*entry.key)) {
            let fault = Fault::new(FaultCode::UnknownField, "is not known here");
            let fault = self.scope.suggest(fault, &entry.key, &asked);
            let fault = match fault.hint {
                _ if entry.key == "<<" => fault.hint("YAML 1.2 has no merge keys: write the fields out"),
                Some(_) => fault,
                None => fault.hint(format!("the fields are {}", asked.join(", "))),
            };
            let path = field_path(&self.path, &entry.key);
            self.scope.push(TemplateError::new(path, entry.position, fault));
        }
        value
    }

    /// Declares a name, which must be the only one of its kind.
    pub fn declare(&self, kind: NameKind, name: &str) {
        if !self.scope.names.borrow_mut().insert((kind, name.to_owned())) {
            let message = format!("must be unique, but another {} is {}", kind.noun(), quoted(name));
            self.report(Fault::new(FaultCode::Duplicate, message));
        }
    }

    /// Records that this field names something, which [`Scope::finish`] looks for.
    pub fn refer(&self, kind: NameKind, name: &str) {
        self.scope.uses.borrow_mut().push(NameUse {
            kind,
            name: name.to_owned(),
            field: self.path.clone(),
            position: self.node.position,
        });
    }

    /// A name that is declared.
    pub fn declared(&self, kind: NameKind, rule: impl Fn(&str) -> RuleResult<String>) -> Option<String> {
        let name = self.plain(rule)?;
        self.declare(kind, &name);
        Some(name)
    }

    /// A name of something that the document declares elsewhere.
    pub fn reference(&self, kind: NameKind, rule: impl Fn(&str) -> RuleResult<String>) -> Option<String> {
        let name = self.plain(rule)?;
        self.refer(kind, &name);
        Some(name)
    }
}

/// The fields of an object. A field without a value (`null`) counts as absent.
pub struct ObjectReader<'a> {
    of: FieldReader<'a>,
    entries: &'a [NodeEntry],
    asked: RefCell<Vec<&'static str>>,
    is_open: Cell<bool>,
}

impl<'a> ObjectReader<'a> {
    /// The object itself.
    pub fn itself(&self) -> &FieldReader<'a> {
        &self.of
    }

    /// Accepts further fields: without a valid kind of the object, nothing is known of them.
    pub fn leave_open(&self) {
        self.is_open.set(true);
    }

    /// A field, if it is there.
    pub fn get(&self, name: &'static str) -> Option<FieldReader<'a>> {
        self.asked.borrow_mut().push(name);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        let field =
            FieldReader { node: &entry.node, path: field_path(&self.of.path, name), scope: self.of.scope };
        (entry.node.value != NodeValue::Null).then_some(field)
    }

    /// The value of an optional field.
    pub fn read<T>(&self, name: &'static str, read: impl FnOnce(&FieldReader<'a>) -> Option<T>) -> Option<T> {
        self.get(name).and_then(|field| read(&field))
    }

    /// The value of a required field.
    pub fn need<T>(&self, name: &'static str, read: impl FnOnce(&FieldReader<'a>) -> Option<T>) -> Option<T> {
        match self.get(name) {
            Some(field) => read(&field),
            None => {
                self.report_missing(name);
                None
            }
        }
    }

    /// Reports that a field is absent.
    pub fn report_missing(&self, name: &str) {
        let fault = Fault::new(FaultCode::Required, "is required");
        let error = TemplateError::new(field_path(&self.of.path, name), self.of.node.position, fault);
        self.of.scope.push(error);
    }

    /// The entries of an optional list.
    pub fn list<T>(
        &self,
        name: &'static str,
        most: usize,
        read: impl Fn(&FieldReader<'a>) -> Option<T>,
    ) -> Vec<T> {
        self.get(name).map_or_else(Vec::new, |field| field.list(most, read))
    }
}

/// A number that is not infinite.
fn number(text: &str) -> Option<f64> {
    integer(text)
        .map(|value| value as f64)
        .or_else(|| text.parse().ok())
        .filter(|value: &f64| value.is_finite())
}

/// A whole number that is not negative. It may have a point, such as `2.0` (JSON Schema, section 6.1.1).
fn integer(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok();
    }
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits {
        return text.parse().ok();
    }
    let value: f64 = text.parse().ok()?;
    // A float knows the last digit of whole numbers up to 2 to the power of 53.
    (value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value)).then_some(value as u64)
}
