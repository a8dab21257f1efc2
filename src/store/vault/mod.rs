//! Secrets in the database, which are stored sealed.
//!
//! ```text
//! key file --seals--> data key (table data_keys) --seals--> values of the columns in `columns.rs`
//! ```
//! The key file is outside of the database, so that a copy of the database alone reveals no secret. A value is
//! sealed for its row and column (`hotdesk_base::secret::sealing`) and cannot be moved to another one. To store
//! another kind of secret: list its column in `columns.rs`, read it as [`SealedText`], and call [`Vault::seal`] and
//! [`Vault::open`].

use std::fmt::Display;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sqlx::any::{AnyTypeInfo, AnyValueRef};
use sqlx::error::BoxDynError;
use sqlx::{Any, Decode, Type};

use columns::Column;
use hotdesk_base::secret::Secret;
use hotdesk_base::secret::sealing::SealingKey;
use hotdesk_domain::error::{Error, Result};

pub(crate) mod columns;
mod key_file;
mod open;
mod rotate;
mod rows;
mod scrub;

pub(crate) use key_file::KeyFile;
pub(crate) use open::{check, open};

/// A value of a sealed column as it is in the database.
#[derive(Clone, Debug)]
pub(crate) struct SealedText(String);

impl Type<Any> for SealedText {
    fn type_info() -> AnyTypeInfo {
        <String as Type<Any>>::type_info()
    }
}

impl<'r> Decode<'r, Any> for SealedText {
    fn decode(value: AnyValueRef<'r>) -> Result<Self, BoxDynError> {
        <String as Decode<'r, Any>>::decode(value).map(Self)
    }
}

/// Seals and opens values with the data key of the database. Clones share the key.
#[derive(Clone, Debug)]
pub(crate) struct Vault {
    key: Arc<SealingKey>,
}

impl Vault {
    fn new(key: SealingKey) -> Self {
        Self { key: Arc::new(key) }
    }

    /// Returns the text to store for a secret in a column of the row with this key.
    ///
    /// # Errors
    /// `Internal` for a secret that is too long.
    pub(crate) fn seal(&self, column: &Column, row: impl Display, secret: &Secret) -> Result<String> {
        let sealed = self.key.seal(&column.place(row), secret.reveal().as_bytes());
        Ok(STANDARD.encode(sealed.map_err(Error::internal)?))
    }

    /// Returns the secret in a column of the row with this key.
    ///
    /// # Errors
    /// `Internal` when the value was changed, or was sealed for another row or column.
    pub(crate) fn open(&self, column: &Column, row: impl Display, sealed: &SealedText) -> Result<Secret> {
        let place = column.place(row);
        let bytes = STANDARD.decode(&sealed.0).map_err(|_| {
            Error::internal(format!(
                "the value of {place} is not sealed: another program changed the database"
            ))
        })?;
        let text = self.key.open(&place, bytes).map_err(Error::internal)?;
        String::from_utf8(text).map(Secret::new).map_err(|_| Error::internal(format!("{place} is not UTF-8")))
    }
}
