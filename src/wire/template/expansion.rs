//! Texts of a valid definition with their references replaced.

use std::collections::BTreeMap;

use hotdesk_domain::computer::template::bounds::{MAX_SCRIPT_BYTES, MAX_TEXT_BYTES};
use hotdesk_domain::computer::template::fault::{Fault, FaultCode, RuleResult};
use hotdesk_domain::computer::template::interpolation::{ReferenceKind, expand};
use hotdesk_domain::computer::template::network::egress::EgressPolicy;
use hotdesk_domain::error::{Error, Result};

use super::TemplateDefinition;
use super::choice::Choice;
use super::environment::TextOrSecret;
use super::runtime::TemplateEgress;

/// Values of a definition's references.
pub struct TemplateValues<'a> {
    variables: &'a BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
}

impl TemplateDefinition {
    /// The values of its references.
    ///
    /// # Errors
    /// `Internal` for a definition that is not valid.
    pub fn values(&self) -> Result<TemplateValues<'_>> {
        let mut values = TemplateValues { variables: &self.vars, environment: BTreeMap::new() };
        let mut environment = BTreeMap::new();
        for (name, value) in &self.env {
            if let TextOrSecret::Literal(text) = value {
                environment.insert(name.clone(), values.expand_within(text, MAX_TEXT_BYTES)?);
            }
        }
        values.environment = environment;
        Ok(values)
    }

    /// The egress policy of its computers.
    ///
    /// # Errors
    /// `Internal` for a definition that is not valid.
    pub fn egress(&self) -> Result<Option<EgressPolicy>> {
        let Some(TemplateEgress { mode, rules }) = &self.egress_policy else { return Ok(None) };
        let values = self.values()?;
        let rules = rules.iter().map(|rule| values.expand(rule)).collect::<Result<Vec<_>>>()?;
        let policy = EgressPolicy::parse(mode.word(), rules.iter().map(String::as_str));
        policy.map(Some).map_err(|error| Error::internal(format!("a published template is invalid: {error}")))
    }
}

impl TemplateValues<'_> {
    /// The literal environment variables by their name.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// Replaces the references of a text.
    ///
    /// # Errors
    /// `Internal` for a text of a definition that is not valid.
    pub fn expand(&self, text: &str) -> Result<String> {
        self.expand_within(text, MAX_SCRIPT_BYTES)
    }

    fn expand_within(&self, text: &str, most: usize) -> Result<String> {
        let mut faults = Vec::new();
        let value = |kind, name: &str| self.value(kind, name);
        let expanded = expand(text, most, value, |fault| faults.push(fault.message));
        expanded
            .ok_or_else(|| Error::internal(format!("a published template is invalid: {}", faults.join("; "))))
    }

    fn value(&self, kind: ReferenceKind, name: &str) -> RuleResult<&String> {
        let values = match kind {
            ReferenceKind::Variable => self.variables,
            ReferenceKind::Environment => &self.environment,
        };
        values.get(name).ok_or_else(|| Fault::new(FaultCode::UnknownRef, format!("{name} is not defined")))
    }
}
