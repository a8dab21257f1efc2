//! Secrets, variables and environment of a template.

use std::collections::BTreeMap;

use hotdesk_domain::computer::template::bounds::{MAX_ENTRIES, MAX_TEXT_BYTES};
use hotdesk_domain::computer::template::fault::Fault;
use hotdesk_domain::computer::template::name;
use schemars::JsonSchema;
use serde::Serialize;

use super::reader::{FieldReader, NameKind};

/// A secret that the computer gets from the vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateSecret {
    /// Name in lower case: `api_key` is the entry `API_KEY` of the vault.
    #[schemars(regex(pattern = r"^[a-z][a-z0-9_]{0,63}$"))]
    pub name: String,
    /// Purpose of the variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Form of a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// A literal text, or the name of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TextOrSecret {
    /// A literal text.
    Literal(#[schemars(schema_with = "super::schema::scalar")] String),
    /// The value of a secret.
    Secret {
        /// Its name in `secrets`.
        secret: String,
    },
}

/// Environment variables by their name.
pub type Environment = BTreeMap<String, TextOrSecret>;

/// Reads `secrets`.
pub(super) fn read_secrets(field: &FieldReader<'_>) -> Vec<TemplateSecret> {
    field.list(MAX_ENTRIES, |secret| {
        secret.object(|object| {
            let name = object.need("name", |field| field.declared(NameKind::Secret, name::secret));
            let description = object.read("description", FieldReader::label);
            let example = object.read("example", FieldReader::label);
            Some(TemplateSecret { name: name?, description, example })
        })
    })
}

/// Reads `vars`. Values do not refer to other values.
pub(super) fn read_variables(field: &FieldReader<'_>) -> BTreeMap<String, String> {
    let value = |field: &FieldReader<'_>| {
        // A wrong value stays defined, so that texts that refer to it are no further errors.
        let text = field.scalar().unwrap_or_default();
        if text.contains("${var.") || text.contains("${env.") {
            field.report(Fault::invalid("must not refer to other values").hint("write the value out"));
        }
        Some(text)
    };
    field.map(|key| key.plain(name::variable), value).into_iter().collect()
}

/// Reads environment variables.
pub(super) fn read(field: &FieldReader<'_>) -> Environment {
    field.map(|key| key.plain(name::environment), text_or_secret).into_iter().collect()
}

/// Reads `env`. The second value has the literal values after interpolation, and `None` for secrets.
pub(super) fn read_global(field: &FieldReader<'_>) -> (Environment, BTreeMap<String, Option<String>>) {
    let (mut environment, mut literals) = (Environment::new(), BTreeMap::new());
    // A wrong value stays defined, as in `vars`.
    let wrong = || (TextOrSecret::Literal(String::new()), Some(String::new()));
    let value = |field: &FieldReader<'_>| Some(read_value(field).unwrap_or_else(wrong));
    let entries = field.map(|key| key.plain(name::environment), value);
    for (name, (value, literal)) in entries {
        literals.insert(name.clone(), literal);
        environment.insert(name, value);
    }
    (environment, literals)
}

/// Reads a literal text, or `{secret: NAME}`.
fn text_or_secret(field: &FieldReader<'_>) -> Option<TextOrSecret> {
    read_value(field).map(|(value, _)| value)
}

/// Reads a literal text or `{secret: NAME}`. Returns it with the literal text after interpolation.
pub(super) fn read_value(field: &FieldReader<'_>) -> Option<(TextOrSecret, Option<String>)> {
    if field.is_map() {
        return field.object(|object| {
            let secret = object.need("secret", |field| field.reference(NameKind::Secret, name::secret))?;
            Some((TextOrSecret::Secret { secret }, None))
        });
    }
    let text = field.scalar()?;
    let expanded = field.expand(&text, MAX_TEXT_BYTES)?;
    Some((TextOrSecret::Literal(text), Some(expanded)))
}
