//! Assets of the console: scripts, styles, fonts and pictures. The build compresses those that gain by it.

use std::io::Read;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use flate2::read::GzDecoder;

use super::BUILD;
use hotdesk_domain::error::Error;
use hotdesk_http::error_response::Result;
use hotdesk_http::extract::Path;

/// Folder of the files whose names contain a hash of their content. The others may change under their names.
const HASHED: &str = "assets/";
/// End of the name of a compressed file.
const COMPRESSED: &str = ".gz";
/// The name of an asset holds a hash of its content, so that it can be cached forever.
const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";

/// Address of the asset whose name begins and ends so, with the hash between; `None` when there is none.
pub fn address(start: &str, end: &str) -> Option<String> {
    let folder = BUILD.get_dir(HASHED.trim_end_matches('/'))?;
    let mut names = folder.files().filter_map(|file| file.path().file_name()?.to_str());
    let is_wanted = |name: &str| name.starts_with(start) && name.ends_with(end);
    let name = names.find_map(|name| {
        let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
        is_wanted(name).then_some(name)
    })?;
    Some(format!("/app/{HASHED}{name}"))
}

/// `GET /app/{path}`.
pub(super) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Result<Response> {
    let unknown = || Error::not_found("Not found");
    if !path.starts_with(HASHED) || path.ends_with(COMPRESSED) {
        return Err(unknown().into());
    }
    let compressed = BUILD.get_file(format!("{path}{COMPRESSED}"));
    let sends_compressed = compressed.is_some() && accepts_gzip(&headers);
    let content = match compressed {
        Some(file) if sends_compressed => Bytes::from_static(file.contents()),
        Some(file) => decompressed(file.contents())?,
        None => Bytes::from_static(BUILD.get_file(&path).ok_or_else(unknown)?.contents()),
    };
    let mut response = content.into_response();
    let kind = mime_guess::from_path(&path).first_raw().unwrap_or("application/octet-stream");
    let fields = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, CACHE_FOREVER),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        fields.insert(name, HeaderValue::from_static(value));
    }
    if compressed.is_some() {
        fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if sends_compressed {
        fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}

/// The content of a compressed file, for the few clients that do not accept gzip: the program contains no
/// second copy.
fn decompressed(content: &[u8]) -> Result<Bytes> {
    let mut plain = Vec::new();
    GzDecoder::new(content).read_to_end(&mut plain).map_err(Error::internal)?;
    Ok(plain.into())
}

/// Whether a client accepts gzip (RFC 9110 section 12.5.3). What the field says of `gzip` wins over what it
/// says of `*`.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let (mut named, mut others) = (None, None);
    for coding in fields.flat_map(|field| field.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        // A weight that is no number refuses, as no client sends one.
        let is_wanted = weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0));
        if name.eq_ignore_ascii_case("gzip") {
            named = Some(is_wanted);
        } else if name == "*" {
            others = Some(is_wanted);
        }
    }
    named.or(others).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_for_clients_that_accept_it() {
        for (fields, expected) in [
            (&[][..], false),
            (&[""], false),
            (&["gzip"], true),
            (&["gzip, deflate, br, zstd"], true),
            (&["br", "GZIP;q=0.5"], true),
            (&["br;q=1.0, gzip; q=0"], false),
            (&["gzip;q=0.000"], false),
            (&["gzip;q=x"], false),
            (&["*"], true),
            (&["*;q=0"], false),
            (&["gzip;q=0, *"], false),
            (&["*;q=0, gzip"], true),
            (&["identity"], false),
            (&["xgzip"], false),
        ] {
            let mut headers = HeaderMap::new();
            for field in fields {
                headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(field));
            }
            assert_eq!(accepts_gzip(&headers), expected, "{fields:?}");
        }
    }

    #[test]
    fn an_asset_is_found_by_the_ends_of_its_name() {
        let novnc = address("rfb-", ".js").expect("the chunk with noVNC");
        let content = BUILD.get_file(format!("{}.gz", novnc.trim_start_matches("/app/"))).expect("its file");
        let script = decompressed(content.contents()).expect("gzip");
        let script = std::str::from_utf8(&script).expect("text");
        // The viewer page imports it alone, by this name.
        assert!(script.trim_end().ends_with(" as default};"), "the chunk exports something else");
        assert_eq!(address("none-", ".js"), None);
    }

    #[test]
    fn the_build_has_its_scripts_once_and_compressed() {
        let folder = BUILD.get_dir(HASHED.trim_end_matches('/')).expect("the build has assets");
        let names: Vec<&str> = folder.files().filter_map(|file| file.path().to_str()).collect();
        let script = names.iter().find(|name| name.ends_with(".js.gz")).expect("a compressed script");
        assert!(!names.contains(&script.trim_end_matches(COMPRESSED)), "{names:?}");
        let file = BUILD.get_file(script).expect("the script");
        let plain = decompressed(file.contents()).expect("gzip");
        assert!(plain.len() > file.contents().len());
    }
}
