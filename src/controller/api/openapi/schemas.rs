//! Schemas of the OpenAPI document, in the forms that generators of clients support.
//!
//! | The derived schema | becomes | because |
//! |---|---|---|
//! | `allOf` of objects | one object | a strict part would refuse the fields of the others |
//! | unnamed variants of a tagged union | named schemas and a discriminator | a generated type needs a name |
//! | a pattern that lists words | a named enumeration | generators make types of enumerations |
//! | a text with the length of a name | a text with the pattern of names | clients can check it |
//! | an unsigned number of 32 bits | a number with its largest value | `int32` is signed |
//! | an object without listed fields | one that may have any | generators make types without fields of it |

use std::collections::{BTreeMap, BTreeSet, HashSet};

use hotdesk_domain::name::MAX_CHARACTERS;
use serde_json::Value;
use utoipa::Number;
use utoipa::openapi::schema::{
    AdditionalProperties, Discriminator, Object, ObjectBuilder, OneOf, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{KnownFormat, OpenApi, Ref, RefOr, SchemaFormat};

/// Pattern of what [`Name::parse`](hotdesk_domain::name::Name::parse) accepts: no control character, and not only white space.
const NAME_PATTERN: &str =
    r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$";

/// Schemas by their name.
type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Rewrites the schemas of a document. `strict` has the names of those that refuse unknown fields.
pub fn simplify(schemas: &mut Schemas, strict: &BTreeSet<String>) {
    let mut added = Schemas::new();
    let taken: HashSet<String> = schemas.keys().cloned().collect();
    for (name, schema) in schemas.iter_mut() {
        name_words(name, schema, &taken, &mut added);
    }
    let derived = schemas.clone();
    for (name, schema) in schemas.iter_mut() {
        if matches!(schema, RefOr::T(Schema::AllOf(_)))
            && let Some(mut whole) = merged(&derived, schema)
        {
            if strict.contains(name) {
                whole.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
            *schema = RefOr::T(Schema::Object(whole));
        }
    }
    let merged = schemas.clone();
    for (name, schema) in schemas.iter_mut() {
        if let RefOr::T(Schema::OneOf(union)) = schema {
            name_variants(&merged, name, union, &mut added);
        }
    }
    schemas.append(&mut added);
    for schema in schemas.values_mut() {
        if let RefOr::T(Schema::Object(object)) = schema {
            object.properties.values_mut().for_each(|field| {
                limit_field(field);
                open_field(field);
            });
        }
    }
}

/// Lets an object without listed fields have any.
fn open_field(field: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(field)) = field else { return };
    let is_object = match &field.schema_type {
        SchemaType::Type(kind) => *kind == Type::Object,
        SchemaType::Array(kinds) => kinds.contains(&Type::Object),
        SchemaType::AnyValue => false,
    };
    if is_object && field.properties.is_empty() && field.additional_properties.is_none() {
        field.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
    }
}

/// Adds the limits of a field or parameter that its type does not express.
pub fn limit_field(field: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(field)) = field else { return };
    let is_name = field.min_length == Some(1) && field.max_length == Some(MAX_CHARACTERS);
    if is_name && field.pattern.is_none() {
        field.pattern = Some(NAME_PATTERN.to_owned());
    }
    let is_unsigned = matches!(field.minimum, Some(Number::UInt(_) | Number::Int(0..)));
    if is_unsigned && field.format == Some(SchemaFormat::KnownFormat(KnownFormat::Int32)) {
        field.format = None;
        field.maximum.get_or_insert(Number::UInt(u32::MAX as usize));
    }
}

/// Removes schemas that nothing refers to, such as the parts of merged objects.
pub fn remove_unused(document: &mut OpenApi) {
    // A document that cannot be serialized is reported where it is served.
    let text = document.to_json().unwrap_or_default();
    let references = text.split("\"#/components/schemas/").skip(1);
    let used: HashSet<&str> = references.filter_map(|rest| Some(rest.split_once('"')?.0)).collect();
    if let Some(components) = &mut document.components {
        components.schemas.retain(|name, _| used.contains(name.as_str()));
    }
}

/// The schema of bytes.
pub fn bytes() -> RefOr<Schema> {
    let format = Some(SchemaFormat::KnownFormat(KnownFormat::Binary));
    RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(Type::String).format(format).build()))
}

/// The schema of text.
pub fn text() -> RefOr<Schema> {
    RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(Type::String).build()))
}

/// Removes `null` from the types of a parameter: a parameter is absent instead.
pub fn without_null(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(object)) = schema else { return };
    if let SchemaType::Array(types) = &mut object.schema_type {
        types.retain(|kind| *kind != Type::Null);
        if let [only] = types.as_slice() {
            object.schema_type = SchemaType::Type(only.clone());
        }
    }
}

/// Turns the pattern of a parameter, such as `^(left|right)$`, into an enumeration.
pub fn list_words(schema: &mut RefOr<Schema>) {
    if let RefOr::T(Schema::Object(object)) = schema
        && let Some(words) = words(object)
    {
        object.enum_values = Some(words);
        object.pattern = None;
    }
}

/// The words of a pattern such as `^(left|right)$`; `None` for any other pattern.
fn words(object: &Object) -> Option<Vec<Value>> {
    let words = object.pattern.as_deref()?.strip_prefix("^(")?.strip_suffix(")$")?;
    let is_list = words.chars().all(|char| char.is_ascii_alphanumeric() || "_-|".contains(char));
    is_list.then(|| words.split('|').map(Value::from).collect())
}

/// Moves fields that list words to named schemas: `button` of `Click` becomes `ClickButton`. `taken` has the
/// names of other schemas: `status` of `Computer` becomes `ComputerStatusName`, because `ComputerStatus` is
/// another one.
fn name_words(name: &str, schema: &mut RefOr<Schema>, taken: &HashSet<String>, added: &mut Schemas) {
    match schema {
        RefOr::T(Schema::AllOf(parts)) => {
            parts.items.iter_mut().for_each(|part| name_words(name, part, taken, added));
        }
        RefOr::T(Schema::Object(object)) => {
            for (field, property) in &mut object.properties {
                let name = format!("{name}{}", pascal_case(field));
                let name = if taken.contains(&name) { format!("{name}Name") } else { name };
                name_field(name, property, added);
            }
        }
        RefOr::T(_) | RefOr::Ref(_) => {}
    }
}

fn name_field(name: String, property: &mut RefOr<Schema>, added: &mut Schemas) {
    let RefOr::T(Schema::Object(object)) = property else { return };
    let Some(words) = words(object) else { return };
    let mut reference = Ref::from_schema_name(&name);
    let words = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build();
    added.insert(name, RefOr::T(Schema::Object(words)));
    let is_nullable = matches!(&object.schema_type, SchemaType::Array(types) if types.contains(&Type::Null));
    let description = object.description.take();
    *property = if is_nullable {
        let null = ObjectBuilder::new().schema_type(Type::Null).build();
        let either = OneOfBuilder::new().item(reference).item(Schema::Object(null)).description(description);
        RefOr::T(Schema::OneOf(either.build()))
    } else {
        reference.description = description.unwrap_or_default();
        RefOr::Ref(reference)
    };
}

/// Returns one object with the fields of all parts; `None` when a part is no object.
fn merged(schemas: &Schemas, schema: &RefOr<Schema>) -> Option<Object> {
    match schema {
        RefOr::Ref(reference) => merged(schemas, schemas.get(name_of(reference)?)?),
        RefOr::T(Schema::Object(object)) => Some(object.clone()),
        RefOr::T(Schema::AllOf(parts)) => {
            let mut whole = Object::new();
            for part in &parts.items {
                let part = merged(schemas, part)?;
                whole.properties.extend(part.properties);
                whole.required.extend(part.required);
                whole.additional_properties = whole.additional_properties.or(part.additional_properties);
            }
            whole.description.clone_from(&parts.description);
            whole.example.clone_from(&parts.example);
            Some(whole)
        }
        RefOr::T(_) => None,
    }
}

/// Returns the name of a schema that a reference names.
pub fn name_of(reference: &Ref) -> Option<&str> {
    reference.ref_location.strip_prefix("#/components/schemas/")
}

/// Moves the variants of a union with a tag to named schemas: `click` of `Action`, which consists of parts,
/// becomes `ClickAction`; `click` of `OpenaiAction`, which lists its fields, becomes `OpenaiActionClick`.
fn name_variants(schemas: &Schemas, union_name: &str, union: &mut OneOf, variants: &mut Schemas) {
    for item in &mut union.items {
        let has_parts = matches!(item, RefOr::T(Schema::AllOf(_)));
        if !has_parts && !matches!(item, RefOr::T(Schema::Object(_))) {
            continue;
        }
        let Some(object) = merged(schemas, item) else { continue };
        let Some((tag, value)) = object.properties.iter().find_map(|(name, it)| Some((name, tag_value(it)?)))
        else {
            continue;
        };
        let variant = pascal_case(&value);
        let name = if has_parts {
            format!("{variant}{}", pascal_case(tag))
        } else {
            format!("{union_name}{variant}")
        };
        let discriminator = union.discriminator.get_or_insert_with(|| Discriminator::new(tag));
        let reference = Ref::from_schema_name(&name);
        discriminator.mapping.insert(value, reference.ref_location.clone());
        variants.insert(name, RefOr::T(Schema::Object(object)));
        *item = RefOr::Ref(reference);
    }
}

/// The only value of a property; `None` when it has several or none.
fn tag_value(property: &RefOr<Schema>) -> Option<String> {
    match property {
        RefOr::T(Schema::Object(object)) => match object.enum_values.as_deref() {
            Some([Value::String(only)]) => Some(only.clone()),
            Some(_) | None => None,
        },
        RefOr::T(_) | RefOr::Ref(_) => None,
    }
}

/// `mouse_down` becomes `MouseDown`.
fn pascal_case(name: &str) -> String {
    let capitalized = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    name.split('_').filter(|word| word.is_ascii() && !word.is_empty()).map(capitalized).collect()
}
