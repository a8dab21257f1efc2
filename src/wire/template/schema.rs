//! JSON Schema of the definition file, generated from its types, with the shorthands that reading writes out.
//!
//! Draft 07: `yaml-language-server`, which most editors use, knows it best.

use std::sync::LazyLock;

use hotdesk_domain::computer::template::hardware::ANY_REGION;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::TemplateDefinition;

/// Pattern of names in kebab case.
pub(super) const KEBAB: &str = "^[a-z0-9]+(-[a-z0-9]+)*$";
/// Pattern of durations.
pub(super) const DURATION: &str = r"^(?=\d)(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$";
/// Pattern of rates.
pub(super) const RATE: &str = r"^\d{1,5}/(?=\d)(\d+d)?(\d+h)?(\d+m)?(\d+s)?(\d+ms)?$";

/// The schema, made once.
static SCHEMA: LazyLock<Value> = LazyLock::new(generate);

/// Returns the JSON Schema of the definition file. Only [`validate`](super::validate) knows the rules between fields, such
/// as references.
pub fn schema() -> &'static Value {
    &SCHEMA
}

fn generate() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<TemplateDefinition>().to_value();
    schema["title"] = json!("Template of hotdesk");
    schema["description"] = json!("Definition file of a template, in YAML or JSON.");
    add_shorthands(&mut schema);
    // hotdesk has no GPU and no regions: only the values that ask for nothing are valid, and reading drops them.
    let hardware = &mut schema["definitions"]["TemplateHardware"]["properties"];
    hardware["gpu"] = json!({ "const": "none", "description": "hotdesk computers have no GPU." });
    hardware["gpu_count"] = json!({ "const": 0, "description": "hotdesk computers have no GPU." });
    hardware["region"] = json!({ "const": ANY_REGION, "description": "hotdesk has no regions." });
    schema
}

/// Adds the fields of the document that reading writes out to others.
fn add_shorthands(schema: &mut Value) {
    let list = schema["properties"]["files"].take();
    let map = json!({
        "description": "Contents of files by their path.",
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": { "type": "string" }
    });
    let properties = &mut schema["properties"];
    properties["files"] = json!({ "anyOf": [list, map] });
    properties["name"] = json!({
        "description": "Shorthand of template.name and template.version: NAME@VERSION.",
        "type": "string",
        "pattern": "^[a-z0-9]+(-[a-z0-9]+)*@.+$"
    });
    properties["cpu"] =
        json!({ "description": "Shorthand of hardware.cpu.", "type": "integer", "enum": [1, 2, 4, 8, 16] });
    properties["ram"] = json!({
        "description": "Shorthand of hardware.ram_gb, such as 4gb.",
        "anyOf": [
            { "type": "integer", "minimum": 4, "maximum": 64 },
            { "type": "string", "pattern": r"^\s*\d+\s*([gG]([iI]?[bB])?)?\s*$" }
        ]
    });
    properties["display"] = json!({
        "description": "Shorthand of hardware.resolution.",
        "type": "string",
        "pattern": r"^\d{2,4}x\d{2,4}(x(16|24|32))?$"
    });
    properties["wallpaper"] =
        json!({ "description": "URL of a picture, which becomes a file.", "type": "string" });
    properties["on_first_boot"] =
        json!({ "description": "Shorthand of hooks.on_first_boot.", "type": "string" });
    // Name and version are in one of two places.
    schema["required"] = json!(["api_version"]);
    if let Some(metadata) = schema["definitions"]["TemplateMetadata"].as_object_mut() {
        metadata.remove("required");
    }
    schema["anyOf"] = json!([
        { "required": ["template"], "properties": { "template": { "required": ["name", "version"] } } },
        { "required": ["name"] }
    ]);
}

/// The schema of an environment variable's literal value.
pub(super) fn scalar(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "number", "boolean"] })
}

/// The schema of the mode of a file.
pub(super) fn mode(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "string", "pattern": "^(0o)?[0-7]{3,4}$" }, { "type": "integer" }, { "type": "null" }]
    })
}

/// The schema of the variables.
pub(super) fn variables(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": { "type": ["string", "number", "boolean"] }
    })
}
