//! Reader of an object's fields.

use std::cell::{Cell, RefCell};

use hotdesk_domain::computer::template::fault::{Fault, FaultCode};

use super::FieldReader;
use crate::template::answer::TemplateError;
use crate::template::document::{NodeEntry, NodeValue, field_path};

/// The fields of an object. A field without a value (`null`) counts as absent.
pub struct ObjectReader<'a> {
    of: FieldReader<'a>,
    entries: &'a [NodeEntry],
    asked: RefCell<Vec<&'static str>>,
    is_open: Cell<bool>,
}

impl<'a> ObjectReader<'a> {
    pub(super) fn new(of: FieldReader<'a>, entries: &'a [NodeEntry]) -> Self {
        Self { of, entries, asked: RefCell::default(), is_open: Cell::new(false) }
    }

    /// Reports the fields that no reader has asked for.
    pub(super) fn report_unknown(self) {
        if self.is_open.get() {
            return;
        }
        let asked = self.asked.into_inner();
        for entry in self.entries.iter().filter(|entry| !asked.contains(&&*entry.key)) {
            let fault = Fault::new(FaultCode::UnknownField, "is not known here");
            let fault = self.of.scope.suggest(fault, &entry.key, &asked);
            let fault = match fault.hint {
                _ if entry.key == "<<" => fault.hint("YAML 1.2 has no merge keys: write the fields out"),
                Some(_) => fault,
                None => fault.hint(format!("the fields are {}", asked.join(", "))),
            };
            let path = field_path(&self.of.path, &entry.key);
            self.of.scope.push(TemplateError::new(path, entry.position, fault));
        }
    }

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
