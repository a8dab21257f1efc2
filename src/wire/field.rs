//! Serializers and deserializers of single fields.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

/// Largest number up to which every whole `f64` is exact: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Serializes a whole number as `1`, not as `1.0`, which some languages decode to another type.
///
/// # Errors
/// Those of the serializer.
pub(crate) fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if value.fract() == 0.0 && value.abs() <= EXACT {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// Does the same as [`number`] for a field that may be null.
///
/// # Errors
/// Those of the serializer.
pub(crate) fn number_or_null<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// Deserializes a field where null differs from absent: null clears it, absent leaves it unchanged. A present
/// field becomes `Some`; use `#[serde(default)]` for an absent one.
///
/// # Errors
/// Those of `T`.
pub(crate) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// Visitor of an object or null. Serde also accepts a struct as an array of its fields, whose order the API
/// does not define.
struct Object<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}

/// Deserializes an object or null.
///
/// # Errors
/// For any other value, also an array, and for an object that `T` refuses.
pub(crate) fn or_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_option(Object(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[derive(Serialize)]
    struct Sample {
        #[serde(serialize_with = "number")]
        one: f64,
        #[serde(serialize_with = "number_or_null")]
        other: Option<f64>,
    }

    #[test]
    fn whole_numbers_have_no_point() {
        for (one, other, expected) in [
            (1.0, None, r#"{"one":1,"other":null}"#),
            (0.5, Some(-2.0), r#"{"one":0.5,"other":-2}"#),
            (0.0, Some(2.25), r#"{"one":0,"other":2.25}"#),
            (1e300, Some(EXACT), r#"{"one":1e+300,"other":9007199254740992}"#),
        ] {
            assert_eq!(serde_json::to_string(&Sample { one, other }).unwrap(), expected);
        }
    }
}
