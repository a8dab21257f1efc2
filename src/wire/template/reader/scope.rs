//! Errors, names and inserted references that the readers of one document share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use hotdesk_domain::computer::template::bounds::{MAX_INSERTED_BYTES, MAX_SCRIPT_BYTES, MAX_TEXT_BYTES};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, RuleResult, nearest, quoted};
use hotdesk_domain::computer::template::interpolation::{self, ReferenceKind};
use hotdesk_domain::computer::template::path;

use crate::template::answer::{ErrorList, Position, TemplateError};

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
    /// A port on the outside.
    ExternalPort,
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
            Self::ExternalPort => "external port",
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

/// Returns the text of a file beside the definition file, by its path from there.
pub type FileTexts = Box<dyn Fn(&str) -> RuleResult<String>>;

/// What the readers of one document share.
#[derive(Default)]
pub struct Scope {
    errors: RefCell<ErrorList>,
    /// Files beside the definition file; absent where only the document is known.
    files: Option<FileTexts>,
    /// Bytes that references have inserted into texts.
    inserted: Cell<usize>,
    variables: RefCell<BTreeMap<String, String>>,
    /// Literal values after interpolation, and `None` for secrets; absent while `env` itself is read.
    environment: RefCell<Option<BTreeMap<String, Option<String>>>>,
    names: RefCell<BTreeSet<(NameKind, String)>>,
    uses: RefCell<Vec<NameUse>>,
}

impl Scope {
    /// A scope that has the errors of the document's text, and the files beside it.
    pub fn with(errors: ErrorList, files: Option<FileTexts>) -> Self {
        Self { errors: RefCell::new(errors), files, ..Self::default() }
    }

    /// The text of a file beside the definition file. What looks like a reference is content of the file.
    pub(super) fn text_beside(&self, name: &str) -> RuleResult<String> {
        let Some(files) = &self.files else {
            let message = format!(
                "names the file {} beside the definition file, which only the command line reads",
                quoted(name)
            );
            let hint = "write it inline or give a URL, or publish with hotdesk templates publish";
            return Err(Fault::new(FaultCode::Unsupported, message).hint(hint));
        };
        let text = files(name)?.replace("${", "$${");
        if text.len() <= MAX_SCRIPT_BYTES { Ok(text) } else { Err(path::too_large(name)) }
    }

    /// Sets the variables that texts refer to.
    pub fn define_variables(&self, variables: BTreeMap<String, String>) {
        *self.variables.borrow_mut() = variables;
    }

    /// Sets the environment that texts refer to; `None` is the value of a secret.
    pub fn define_environment(&self, environment: BTreeMap<String, Option<String>>) {
        *self.environment.borrow_mut() = Some(environment);
    }

    /// Adds an error.
    pub(super) fn push(&self, error: TemplateError) {
        self.errors.borrow_mut().add(|| error);
    }

    /// Adds the nearest of `known` names as a hint, if the error will be listed.
    pub(super) fn suggest(&self, fault: Fault, name: &str, known: &[&str]) -> Fault {
        if self.errors.borrow().is_full() { fault } else { with_nearest(fault, name, known) }
    }

    /// The errors in the order of the document, with those of names that nothing defines.
    pub fn finish(self) -> Vec<TemplateError> {
        let names = self.names.into_inner();
        let mut errors = self.errors.into_inner();
        for NameUse { kind, name, field, position } in self.uses.into_inner() {
            if names.contains(&(kind, name.clone())) {
                continue;
            }
            errors.add(|| {
                let noun = kind.noun();
                let known: Vec<&str> =
                    names.iter().filter(|(other, _)| *other == kind).map(|(_, name)| &**name).collect();
                let message = format!("names the {noun} {}, which the template does not have", quoted(&name));
                let fault = with_nearest(Fault::new(FaultCode::UnknownRef, message), &name, &known);
                let needs_hint = fault.hint.is_none() && kind == NameKind::Secret;
                let fault = if needs_hint { fault.hint("add it to secrets") } else { fault };
                TemplateError::new(field, position, fault)
            });
        }
        errors.finish()
    }

    /// Records a name, which must be the only one of its kind in the document.
    pub(super) fn unique(&self, kind: NameKind, name: String) -> RuleResult<String> {
        if self.names.borrow_mut().insert((kind, name.clone())) {
            return Ok(name);
        }
        let message = format!("must be unique, but another {} is {}", kind.noun(), quoted(&name));
        Err(Fault::new(FaultCode::Duplicate, message))
    }

    /// Records that a field names something, which [`Self::finish`] looks for.
    pub(super) fn refer(&self, kind: NameKind, name: &str, field: &str, position: Position) {
        let (name, field) = (name.to_owned(), field.to_owned());
        self.uses.borrow_mut().push(NameUse { kind, name, field, position });
    }

    /// Expands the references of a text of at most `most` bytes. After the document's bound of inserted bytes, which is
    /// reported once, no text is expanded.
    pub(super) fn expand(&self, text: &str, most: usize, report: impl Fn(Fault)) -> Option<String> {
        if self.inserted.get() > MAX_INSERTED_BYTES {
            return None;
        }
        interpolation::expand(text, most, |kind, name| self.insert(kind, name), report)
    }

    /// Expands the references of a text, of which a rule makes a value. Returns the text as it is written if it has
    /// references.
    pub(super) fn expand_as(
        &self,
        text: &str,
        rule: impl Fn(&str) -> RuleResult<String>,
        report: impl Fn(Fault),
    ) -> Option<String> {
        let expanded = self.expand(text, MAX_TEXT_BYTES, &report)?;
        let value = rule(&expanded).map_err(&report).ok()?;
        Some(if expanded == text { value } else { text.to_owned() })
    }

    /// The value of a reference, which counts as inserted.
    fn insert(&self, kind: ReferenceKind, name: &str) -> RuleResult<String> {
        let value = self.value(kind, name)?;
        self.inserted.set(self.inserted.get() + value.len());
        if self.inserted.get() > MAX_INSERTED_BYTES {
            let message = format!(
                "makes the values that references insert into the document longer than {MAX_INSERTED_BYTES} bytes"
            );
            return Err(Fault::new(FaultCode::TooLarge, message));
        }
        Ok(value)
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

/// A fault with the nearest of `known` names as a hint.
fn with_nearest(fault: Fault, name: &str, known: &[&str]) -> Fault {
    match nearest(name, known) {
        Some(near) => fault.hint(format!("did you mean {near}?")),
        None => fault,
    }
}
