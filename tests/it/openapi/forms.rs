//! Forms of the OpenAPI document: those that generators of clients support.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hotdesk::domain::computer::isolation::Isolation;
use hotdesk::domain::computer::lifecycle::Status;
use serde_json::{Map, Value};

use super::{document, operations, schema};

/// Bodies that may have unknown fields (docs/api/compatibility.md#fields-without-effect).
const TOLERANT_BODIES: [&str; 4] = ["ChatCompletionRequest", "CreateComputer", "PollDevice", "StartDevice"];

/// Calls `visit` with every object of a JSON value and its path.
fn each_object(value: &Value, path: &str, visit: &mut impl FnMut(&str, &Map<String, Value>)) {
    if let Some(fields) = value.as_object() {
        visit(path, fields);
        fields.iter().for_each(|(name, field)| each_object(field, &format!("{path}/{name}"), visit));
    }
    value.as_array().into_iter().flatten().for_each(|item| each_object(item, path, visit));
}

#[test]
fn json_bodies_are_strict_and_optional_where_nothing_is_required() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        let name = format!("{method} {path}");
        let content = &operation["requestBody"]["content"]["application/json"];
        if content.is_null() {
            continue;
        }
        let kind =
            content["schema"]["$ref"].as_str().and_then(|it| it.rsplit('/').next()).unwrap_or_default();
        let body = schema(&document, &content["schema"]);
        // Of several forms, each is strict.
        let forms = body["oneOf"].as_array().map_or(vec![body], |forms| forms.iter().collect());
        let is_strict = forms.iter().all(|form| schema(&document, form)["additionalProperties"] == false);
        assert_eq!(is_strict, !TOLERANT_BODIES.contains(&kind), "{name}: {kind}");
        if operation["requestBody"]["required"] != true {
            assert!(body["required"].is_null(), "{name}: an empty body lacks {}", body["required"]);
        }
    }
    for (path, optional) in [("clone", true), ("fork", true), ("snapshots", true), ("click", false)] {
        let required =
            &document["paths"][format!("/computers/{{id}}/{path}")]["post"]["requestBody"]["required"];
        assert_eq!(required != true, optional, "{path}");
    }
}

#[test]
fn the_document_has_no_form_that_generators_refuse() {
    let document = document();
    let mut references = BTreeSet::new();
    each_object(&document, "", &mut |path, object| {
        assert!(!object.contains_key("allOf"), "{path} is a composition");
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            let target = document.pointer(reference.trim_start_matches('#'));
            assert!(target.is_some(), "{path} refers to {reference}");
            references.insert(reference.trim_start_matches("#/components/schemas/").to_owned());
        }
        let is_list = |it: &&str| it.starts_with("^(") && it.ends_with(")$") && it.contains('|');
        let words = object.get("pattern").and_then(Value::as_str).filter(is_list);
        let is_plain =
            words.is_some_and(|it| it[2..it.len() - 2].chars().all(|c| c.is_alphanumeric() || c == '|'));
        assert!(!is_plain, "{path}: {words:?} is an enumeration");
    });
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(references.contains(name), "nothing refers to {name}");
    }
    for (method, path, operation) in operations(&document) {
        let name = format!("{method} {path}");
        let id = operation["operationId"].as_str().expect("an id");
        assert!(id.chars().all(|char| char.is_ascii_alphanumeric() || char == '_'), "{name}: {id}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["schema"]["type"].is_string(), "{name}: {parameter} may be null");
        }
        let answers = operation["responses"].as_object().expect("responses").values();
        for content in answers.chain([&operation["requestBody"]]).filter_map(|it| it["content"].as_object()) {
            for (kind, content) in content {
                // A definition file of a template is sent as it is on the disk.
                let bytes = ["octet-stream", "image/", "video/", "x-tar", "x-ndjson", "yaml", "*/*"];
                let is_bytes = bytes.iter().any(|it| kind.contains(it));
                let is_binary = content["schema"]["format"] == "binary";
                assert_eq!(is_bytes, is_binary, "{name}: {kind}: {content}");
            }
        }
    }
    let actions = &document["components"]["schemas"]["Action"];
    let mapping = actions["discriminator"]["mapping"].as_object().expect("a discriminator");
    assert_eq!(mapping.len(), actions["oneOf"].as_array().map_or(0, Vec::len));
    assert_eq!(mapping["mouse_down"], "#/components/schemas/MouseDownAction");
    for (union, value, name) in [
        ("AnthropicAction", "left_click", "AnthropicActionLeftClick"),
        ("OpenaiAction", "click", "OpenaiActionClick"),
    ] {
        let union = &document["components"]["schemas"][union];
        let mapping = union["discriminator"]["mapping"].as_object().expect("a discriminator");
        assert_eq!(mapping.len(), union["oneOf"].as_array().map_or(0, Vec::len));
        assert_eq!(mapping[value], format!("#/components/schemas/{name}"));
    }
}

#[test]
fn a_field_says_what_it_holds() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let fields = |name: &str| &schemas[name]["properties"];
    for (name, field) in [("ActionResult", "details"), ("FireTrigger", "event"), ("PendingCall", "input")] {
        assert_eq!(fields(name)[field]["additionalProperties"], true, "{name}: {field}");
    }
    let words = |field: &str| -> BTreeSet<String> {
        let named = schema(&document, &fields("Computer")[field]);
        let words = named["enum"].as_array().expect("an enumeration");
        words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let statuses: BTreeSet<String> = Status::ALL.iter().map(|it| it.name().to_owned()).collect();
    assert_eq!(words("status"), statuses);
    let isolations: BTreeSet<String> = Isolation::ALL.iter().map(|it| it.name().to_owned()).collect();
    assert_eq!(words("isolation"), isolations);
    // Another type with the name that the words of `status` would have.
    assert!(fields("ComputerStatus")["name"].is_object(), "{}", schemas["ComputerStatus"]);
}

#[test]
fn no_two_types_have_one_name_in_the_document() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wire");
    let mut names = BTreeMap::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
        {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&entry).expect("a source file");
                let mut alias = None;
                for line in text.lines() {
                    if let Some(name) = line.strip_prefix("#[schema(as = ") {
                        alias = name.split([')', ',']).next();
                    } else if let Some(rest) =
                        ["pub struct ", "pub enum "].iter().find_map(|it| line.strip_prefix(it))
                    {
                        let own = rest.split([' ', '<', '(']).next();
                        let name = alias.take().or(own).expect("a name").to_owned();
                        let earlier = names.insert(name.clone(), entry.clone());
                        assert!(earlier.is_none(), "{name} in {entry:?} and {earlier:?}");
                    }
                }
            }
        }
    }
    assert!(names.len() > 150, "only {} types", names.len());
}
