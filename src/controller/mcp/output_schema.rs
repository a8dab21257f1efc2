//! JSON Schemas of the results of tools, from the same types as the OpenAPI document.
//!
//! utoipa makes schemas of OpenAPI 3.1, which are JSON Schema 2020-12 with references to other parts of a
//! document. Here each schema stands alone: what it refers to is in its `$defs`.
//!
//! A failure has a structure too, the error body of the REST API. Clients check it like any other result
//! (the TypeScript package does), so that each schema permits it.

use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// Where an OpenAPI document has its schemas.
const COMPONENTS: &str = "#/components/schemas/";
/// Where a schema has what it refers to.
const DEFINITIONS: &str = "#/$defs/";
/// Keywords of OpenAPI that no validator of results needs. Formats such as `double` are unknown to many, and
/// a strict one refuses the schema.
const LEFT_OUT: [&str; 5] = ["example", "examples", "format", "discriminator", "title"];

/// Returns the schema of a result: an object, as the protocol demands, that is either the record or the body
/// of an error.
pub(super) fn output_schema<R: ToSchema>() -> Map<String, Value> {
    let mut parts: Vec<(String, RefOr<Schema>)> = Vec::new();
    R::schemas(&mut parts);
    standalone(&R::schema(), parts)
}

/// Returns a schema with what it refers to. It is no part of [`output_schema`], whose code exists for each result.
fn standalone(result: &RefOr<Schema>, parts: Vec<(String, RefOr<Schema>)>) -> Map<String, Value> {
    let mut root = Map::new();
    if let Value::Object(schema) = json!(result) {
        root = schema;
    }
    simplify(&mut root);
    let mut definitions = Map::new();
    for (name, part) in parts {
        let mut part = json!(part);
        if let Value::Object(part) = &mut part {
            simplify(part);
        }
        definitions.insert(name, part);
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), Value::from("object"));
    schema.insert("anyOf".to_owned(), Value::Array(vec![Value::Object(root), failure()]));
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

/// The schema of an error body. It has further fields by the error (docs/api/errors.md).
fn failure() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "required": ["error", "request_id"],
        "properties": {"error": text, "code": text, "request_id": text}})
}

/// Points the references of a schema to its definitions, and removes what is left out.
fn simplify(schema: &mut Map<String, Value>) {
    for keyword in LEFT_OUT {
        schema.remove(keyword);
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref")
        && let Some(name) = reference.strip_prefix(COMPONENTS)
    {
        *reference = format!("{DEFINITIONS}{name}");
    }
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            // Its keys are names of fields, which may equal keywords.
            ("properties", Value::Object(fields)) => {
                for field in fields.values_mut() {
                    simplify_value(field);
                }
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(parts)) => {
                for part in parts {
                    simplify_value(part);
                }
            }
            ("items" | "additionalProperties" | "propertyNames", part) => simplify_value(part),
            _ => {}
        }
    }
}

fn simplify_value(schema: &mut Value) {
    if let Value::Object(schema) = schema {
        simplify(schema);
    }
}

#[cfg(test)]
mod tests {
    use hotdesk_wire::computer::Computer;
    use hotdesk_wire::tool::desktop::{MarkedElements, ScreenshotInfo};

    use super::*;

    /// Names in the references of a schema.
    fn references(schema: &Value) -> Vec<String> {
        let text = schema.to_string();
        let names = text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split_once('"'));
        names.map(|(reference, _)| reference.to_owned()).collect()
    }

    #[test]
    fn a_schema_stands_alone() {
        for schema in [
            output_schema::<Computer>(),
            output_schema::<MarkedElements>(),
            output_schema::<ScreenshotInfo>(),
        ] {
            let schema = Value::Object(schema);
            assert_eq!(schema["type"], "object", "{schema}");
            assert_eq!(schema["anyOf"][1], failure(), "{schema}");
            for reference in references(&schema) {
                let name = reference.strip_prefix(DEFINITIONS).unwrap_or_else(|| panic!("{reference}"));
                assert!(schema["$defs"][name].is_object(), "{name} in {schema}");
            }
            assert!(!schema.to_string().contains("\"format\":\"double\""), "{schema}");
        }
    }

    #[test]
    fn fields_keep_names_that_are_keywords() {
        let mut schema = json!({"type": "object", "title": "T", "properties": {
            "title": {"type": "string", "format": "x"}, "format": {"$ref": "#/components/schemas/F"}}});
        simplify(schema.as_object_mut().unwrap());
        let expected = json!({"type": "object", "properties": {
            "title": {"type": "string"}, "format": {"$ref": "#/$defs/F"}}});
        assert_eq!(schema, expected);
    }
}
