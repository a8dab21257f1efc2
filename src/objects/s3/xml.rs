//! XML documents of S3: pages of lists, and errors.
//!
//! Namespaces are ignored, because servers other than Amazon's use several or none.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// One page of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListPage {
    /// Names of objects.
    pub names: Vec<String>,
    /// Common prefixes of further objects, each with the delimiter at its end.
    pub prefixes: Vec<String>,
    /// Token of the next page; `None` on the last one.
    pub next: Option<String>,
}

/// Parses the answer to a list.
///
/// # Errors
/// With the reason, when it is no such document.
pub(super) fn list_page(document: &[u8]) -> Result<ListPage, String> {
    let mut page = ListPage::default();
    let mut is_list = false;
    walk(document, |path, text| match path {
        ["ListBucketResult"] => is_list = true,
        ["ListBucketResult", "Contents", "Key"] => page.names.push(text.to_owned()),
        ["ListBucketResult", "CommonPrefixes", "Prefix"] => page.prefixes.push(text.to_owned()),
        ["ListBucketResult", "NextContinuationToken"] if !text.is_empty() => {
            page.next = Some(text.to_owned());
        }
        _ => {}
    })?;
    if is_list { Ok(page) } else { Err("the answer is no list of objects".to_owned()) }
}

/// Returns code and message of an error, `CODE: MESSAGE`; empty when the document has none.
pub(super) fn error_text(document: &[u8]) -> String {
    let (mut code, mut message) = (String::new(), String::new());
    let walked = walk(document, |path, text| match path {
        ["Error", "Code"] => text.clone_into(&mut code),
        ["Error", "Message"] => text.clone_into(&mut message),
        _ => {}
    });
    match walked {
        Ok(()) if message.is_empty() => code,
        Ok(()) => format!("{code}: {message}"),
        // A proxy answers in HTML, which is no help.
        Err(_) => String::new(),
    }
}

/// Calls `visit` at the end of each element, with the names of it and the elements around it, the outermost
/// first, and with the text since the last tag.
fn walk(document: &[u8], mut visit: impl FnMut(&[&str], &str)) -> Result<(), String> {
    let document = std::str::from_utf8(document).map_err(|error| error.to_string())?;
    let mut reader = Reader::from_str(document);
    let (mut path, mut text) = (Vec::<String>::new(), String::new());
    let mut leave = |path: &[String], text: &str| {
        visit(&path.iter().map(String::as_str).collect::<Vec<_>>(), text);
    };
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(tag) => {
                path.push(String::from_utf8_lossy(tag.local_name().as_ref()).into_owned());
                text.clear();
            }
            Event::Empty(tag) => {
                path.push(String::from_utf8_lossy(tag.local_name().as_ref()).into_owned());
                leave(&path, "");
                path.pop();
                text.clear();
            }
            Event::End(_) => {
                leave(&path, &text);
                path.pop();
                text.clear();
            }
            Event::Text(piece) => text.push_str(&piece.decode().map_err(|error| error.to_string())?),
            Event::CData(piece) => text.push_str(&piece.decode().map_err(|error| error.to_string())?),
            Event::GeneralRef(reference) => {
                if let Some(character) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
                    text.push(character);
                } else {
                    let name = reference.decode().map_err(|error| error.to_string())?;
                    let known = resolve_predefined_entity(&name);
                    text.push_str(known.ok_or_else(|| format!("unknown entity {name}"))?);
                }
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof if path.is_empty() => return Ok(()),
            Event::Eof => return Err("the document is incomplete".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(names: &[&str], prefixes: &[&str], next: Option<&str>) -> ListPage {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        ListPage { names: owned(names), prefixes: owned(prefixes), next: next.map(str::to_owned) }
    }

    #[test]
    fn pages_of_lists_are_read_in_every_form_of_the_servers() {
        for (document, expected) in [
            ("<ListBucketResult/>", page(&[], &[], None)),
            (
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                 <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n  \
                 <Name>bucket</Name>\n\
                 <Prefix>one/</Prefix>\n<Contents><Key>one/a</Key><Size>4</Size>\
                 <Owner><ID>Key</ID></Owner></Contents>\n\
                 <Contents><Size>5</Size><Key>one/b</Key></Contents>\n\
                 <NextContinuationToken>t+/=</NextContinuationToken>\n</ListBucketResult>",
                page(&["one/a", "one/b"], &[], Some("t+/=")),
            ),
            // Objects between prefixes; a namespace with a prefix; an empty token.
            (
                "<s:ListBucketResult xmlns:s='http://doc.s3.amazonaws.com/2006-03-01'>\
                 <s:CommonPrefixes><s:Prefix>a/</s:Prefix></s:CommonPrefixes>\
                 <s:Contents><s:Key>b</s:Key></s:Contents>\
                 <s:CommonPrefixes><s:Prefix>c/</s:Prefix></s:CommonPrefixes>\
                 <s:NextContinuationToken/>\
                 </s:ListBucketResult>",
                page(&["b"], &["a/", "c/"], None),
            ),
            (
                "<ListBucketResult><!-- none --><Contents>\
                 <Key>a&amp;b&#x20;&#99;<![CDATA[<d>]]></Key></Contents></ListBucketResult>",
                page(&["a&b c<d>"], &[], None),
            ),
        ] {
            assert_eq!(list_page(document.as_bytes()), Ok(expected), "{document}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for document in [
            "",
            "OK",
            "<html><body>Sign in</body></html>",
            "<ListBucketResult><Contents><Key>a</Key>",
            "<ListBucketResult><Contents></Key></ListBucketResult>",
            "<ListBucketResult><Contents><Key>&secret;</Key></Contents></ListBucketResult>",
            "<Error><Code>NoSuchBucket</Code></Error>",
        ] {
            assert!(list_page(document.as_bytes()).is_err(), "{document}");
        }
        assert!(list_page(b"<ListBucketResult>\xff</ListBucketResult>").is_err());
    }

    #[test]
    fn errors_have_their_code_and_message_alone() {
        for (document, expected) in [
            (
                "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code>\
                 <Message>Reduce &quot;your&quot; rate.</Message><HostId>private</HostId></Error>",
                "SlowDown: Reduce \"your\" rate.",
            ),
            ("<Error><Code>NoSuchKey</Code></Error>", "NoSuchKey"),
            ("<Error><Code>NoSuchKey</Code>", ""),
            ("<html><p>Bad gateway<br></html>", ""),
            ("Bad gateway", ""),
            ("", ""),
        ] {
            assert_eq!(error_text(document.as_bytes()), expected, "{document}");
        }
    }
}
