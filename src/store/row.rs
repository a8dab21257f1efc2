//! The macro `row!`: structs that are read from rows of a query.

/// Declares a struct whose fields are the columns of the same names, and implements `sqlx::FromRow` for it.
///
/// It replaces `#[derive(sqlx::FromRow)]`: sqlx's macros would compile SQLite and half of sqlx a second time,
/// for the compiler's own use.
macro_rules! row {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $type:ty,)*
    }) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type,)*
        }

        impl sqlx::FromRow<'_, sqlx::any::AnyRow> for $name {
            fn from_row(row: &sqlx::any::AnyRow) -> sqlx::Result<Self> {
                Ok(Self { $($field: sqlx::Row::try_get(row, stringify!($field))?,)* })
            }
        }
    };
}
