//! Extensions of a tar archive: entries that describe the next one (GNU long names, attributes of POSIX.1-2001).
//!
//! The `tar` crate would read an extension of any claimed size into memory. Here it only parses headers, and extensions
//! have a bound.

use std::error::Error;
use std::fmt;
use std::io::{self, Read};

use tar::{Entry, EntryType, PaxExtensions};

/// Attributes that extensions give the next entry. They take precedence over its header.
#[derive(Debug, Default)]
pub struct TarExtension {
    path: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
    /// Id of its user; absent: that of the header.
    pub owner: Option<u64>,
    /// Id of its group; absent: that of the header.
    pub group: Option<u64>,
    /// Capabilities of a program (`security.capability`, capabilities(7)).
    pub capability: Option<Vec<u8>>,
}

/// What is wrong with an extension.
#[derive(Debug)]
pub enum TarExtensionError {
    /// It cannot be read.
    Unreadable(io::Error),
    /// It has more bytes than the caller allows.
    TooLong,
    /// This attribute is no number.
    NoNumber(&'static str),
    /// The next entry has holes, and its content is their list.
    Sparse,
    /// Its size differs from that in the header: programs disagree on where the entry ends.
    TwoSizes,
}

impl TarExtension {
    /// Reads an entry of at most `most` bytes, if it is an extension, and returns whether it is one. Those for all
    /// entries of an archive are skipped.
    ///
    /// # Errors
    /// All but `TwoSizes`.
    pub fn read<R: Read>(&mut self, entry: &mut Entry<'_, R>, most: u64) -> Result<bool, TarExtensionError> {
        let kind = entry.header().entry_type();
        if kind == EntryType::GNULongName {
            self.path = Some(name(entry, most)?);
        } else if kind == EntryType::GNULongLink {
            self.target = Some(name(entry, most)?);
        } else if kind == EntryType::XHeader {
            self.add(&content(entry, most)?)?;
        } else if kind == EntryType::XGlobalHeader {
            drop(content(entry, most)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Checks that the next entry has one size.
    ///
    /// # Errors
    /// `TwoSizes`; `Unreadable` for a damaged header.
    pub fn check_size<R: Read>(&self, entry: &Entry<'_, R>) -> Result<(), TarExtensionError> {
        let size = entry.header().entry_size().map_err(TarExtensionError::Unreadable)?;
        if self.size.is_some_and(|other| other != size) { Err(TarExtensionError::TwoSizes) } else { Ok(()) }
    }

    /// Takes the path of the next entry, as bytes of the archive.
    pub fn take_path<R: Read>(&mut self, entry: &Entry<'_, R>) -> Vec<u8> {
        self.path.take().unwrap_or_else(|| entry.path_bytes().into_owned())
    }

    /// Takes the target of the next entry, as bytes of the archive; empty when it is no link.
    pub fn take_target<R: Read>(&mut self, entry: &Entry<'_, R>) -> Vec<u8> {
        let of_header = || entry.header().link_name_bytes().map(|name| name.into_owned());
        self.target.take().or_else(of_header).unwrap_or_default()
    }

    fn add(&mut self, attributes: &[u8]) -> Result<(), TarExtensionError> {
        for attribute in PaxExtensions::new(attributes) {
            let attribute = attribute.map_err(TarExtensionError::Unreadable)?;
            let value = attribute.value_bytes();
            match attribute.key_bytes() {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.target = Some(value.to_vec()),
                b"size" => self.size = Some(number("size", value)?),
                b"uid" => self.owner = Some(number("uid", value)?),
                b"gid" => self.group = Some(number("gid", value)?),
                b"SCHILY.xattr.security.capability" => self.capability = Some(value.to_vec()),
                key if key.starts_with(b"GNU.sparse") => return Err(TarExtensionError::Sparse),
                _ => {}
            }
        }
        Ok(())
    }
}

fn content<R: Read>(entry: &mut Entry<'_, R>, most: u64) -> Result<Vec<u8>, TarExtensionError> {
    if entry.header().entry_size().map_err(TarExtensionError::Unreadable)? > most {
        return Err(TarExtensionError::TooLong);
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(TarExtensionError::Unreadable)?;
    Ok(bytes)
}

/// A GNU long name ends with a NUL.
fn name<R: Read>(entry: &mut Entry<'_, R>, most: u64) -> Result<Vec<u8>, TarExtensionError> {
    let mut bytes = content(entry, most)?;
    bytes.pop_if(|last| *last == 0);
    Ok(bytes)
}

fn number(name: &'static str, value: &[u8]) -> Result<u64, TarExtensionError> {
    let number = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
    number.ok_or(TarExtensionError::NoNumber(name))
}

impl fmt::Display for TarExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => error.fmt(f),
            Self::TooLong => f.write_str("a name or its attributes are too long"),
            Self::NoNumber(name) => write!(f, "the attribute {name} of an entry is no number"),
            Self::Sparse => f.write_str("sparse files are not supported"),
            Self::TwoSizes => f.write_str("an entry has two sizes"),
        }
    }
}

impl Error for TarExtensionError {}

#[cfg(test)]
mod tests {
    use tar::{Archive, Builder, Header};

    use super::*;

    const MOST: u64 = 1000;

    fn archive(entries: &[(EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (kind, content) in entries {
            let mut header = Header::new_ustar();
            header.set_path("short").unwrap();
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// Path, target, and ids of the entry after the extensions.
    fn read(
        extensions: &[(EntryType, &[u8])],
    ) -> Result<(String, String, [Option<u64>; 2]), TarExtensionError> {
        let entry: &[(EntryType, &[u8])] = &[(EntryType::Regular, b"12")];
        let all = [extensions, entry].concat();
        let bytes = archive(&all);
        let mut archive = Archive::new(&*bytes);
        let mut extension = TarExtension::default();
        for entry in archive.entries().unwrap().raw(true) {
            let mut entry = entry.unwrap();
            if !extension.read(&mut entry, MOST)? {
                extension.check_size(&entry)?;
                let text = |bytes| String::from_utf8(bytes).unwrap();
                let (path, target) = (extension.take_path(&entry), extension.take_target(&entry));
                return Ok((text(path), text(target), [extension.owner, extension.group]));
            }
        }
        panic!("the archive has no entry");
    }

    #[test]
    fn names_and_attributes_come_before_their_entry() {
        let (name, target, attributes) = (EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader);
        type Case<'a> = (&'a [(EntryType, &'a [u8])], &'a str, &'a str, [Option<u64>; 2]);
        let cases: [Case<'_>; 5] = [
            (&[], "short", "", [None, None]),
            (&[(name, b"a long one\0"), (target, b"there")], "a long one", "there", [None, None]),
            (&[(EntryType::XGlobalHeader, b"9 path=a\n")], "short", "", [None, None]),
            (&[(attributes, b"9 path=a\n14 linkpath=b\n9 size=2\n")], "a", "b", [None, None]),
            (&[(attributes, b"15 uid=3000000\n9 gid=12\n")], "short", "", [Some(3_000_000), Some(12)]),
        ];
        for (extensions, path, target, ids) in cases {
            assert_eq!(read(extensions).unwrap(), (path.to_owned(), target.to_owned(), ids));
        }
    }

    #[test]
    fn wrong_extensions_are_refused() {
        let long = vec![b'x'; MOST as usize + 1];
        let attributes = EntryType::XHeader;
        let cases: [(EntryType, &[u8], &str); 7] = [
            (EntryType::GNULongName, &long, "too long"),
            (EntryType::XGlobalHeader, &long, "too long"),
            (attributes, b"9 uid=-1\n", "the attribute uid of an entry is no number"),
            (attributes, b"11 size=x1\n", "the attribute size"),
            (attributes, b"11 size=34\n", "two sizes"),
            (attributes, b"22 GNU.sparse.major=1\n", "sparse"),
            (attributes, b"x path=a\n", "pax"),
        ];
        for (kind, content, why) in cases {
            let refused = read(&[(kind, content)]).unwrap_err().to_string();
            assert!(refused.contains(why), "{why} is not in {refused}");
        }
    }
}
