//! Validation of authorization requests (RFC 6749 section 4.1.1, RFC 7636, RFC 8707).

use super::SCOPE;
use super::parameters::Parameters;
use super::pkce;
use super::refusal::{Code, Refusal};

/// Validates an authorization request, except its client and redirect URI, and returns its PKCE challenge.
///
/// # Errors
/// The error for the client.
pub fn challenge<'a>(parameters: &'a Parameters, resource: &str) -> Result<&'a str, Refusal> {
    match parameters.need("response_type", "response_type is missing")? {
        "code" => {}
        _ => return Err(Code::UnsupportedResponseType.because("response_type can only be code")),
    }
    // The answer goes into the query; a client that asked for another place would not find it.
    if parameters.one("response_mode")?.is_some_and(|mode| mode != "query") {
        return Err(Code::InvalidRequest.because("response_mode can only be query"));
    }
    // What such a request restricts must not be ignored (RFC 9101 section 10.8).
    if parameters.one("request")?.is_some() {
        return Err(Code::RequestNotSupported.because("request objects are not supported"));
    }
    if parameters.one("request_uri")?.is_some() {
        return Err(Code::RequestUriNotSupported.because("request_uri is not supported"));
    }
    let challenge = parameters.need("code_challenge", "code_challenge is missing: PKCE is needed")?;
    if parameters.one("code_challenge_method")? != Some("S256") {
        return Err(Code::InvalidRequest.because("code_challenge_method must be S256"));
    }
    if !pkce::is_challenge(challenge) {
        return Err(Code::InvalidRequest.because("code_challenge is no SHA-256 in base64url"));
    }
    check_scope(parameters)?;
    check_resource(parameters, resource)?;
    Ok(challenge)
}

/// Checks the requested scope: absent, or a list that contains [`SCOPE`], which is granted.
///
/// # Errors
/// `invalid_scope` for a list without it.
pub fn check_scope(parameters: &Parameters) -> Result<(), Refusal> {
    match parameters.one("scope")? {
        Some(list) if !list.split(' ').any(|scope| scope == SCOPE) => {
            Err(Code::InvalidScope.because("the only scope is mcp:tools"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks the requested resource: absent, or exactly `resource`.
///
/// # Errors
/// `invalid_target` for any other resource.
pub fn check_resource(parameters: &Parameters, resource: &str) -> Result<(), Refusal> {
    match parameters.one("resource")? {
        Some(requested) if requested != resource => {
            Err(Code::InvalidTarget.because("tokens are for the MCP endpoint of this service alone"))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCE: &str = "https://desk.example/mcp";

    fn refused(changes: &[(&str, Option<&str>)]) -> Option<Code> {
        let challenge_of = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        let mut all = vec![
            ("response_type", "code"),
            ("code_challenge", challenge_of),
            ("code_challenge_method", "S256"),
            ("scope", SCOPE),
            ("resource", RESOURCE),
            ("unknown", "1"),
        ];
        for (name, value) in changes {
            all.retain(|(given, _)| given != name);
            all.extend(value.map(|value| (*name, value)));
        }
        let owned = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        challenge(&Parameters(owned), RESOURCE).err().map(|refusal| refusal.code)
    }

    #[test]
    fn a43_a44_a62_only_a_code_with_an_s256_challenge_for_the_one_resource_is_granted() {
        for good in [
            &[][..],
            &[("scope", None), ("resource", None)],
            &[("scope", Some("openid mcp:tools offline_access"))],
            &[("scope", Some(""))],
            &[("response_mode", Some("query"))],
        ] {
            assert_eq!(refused(good), None, "{good:?}");
        }
        for (change, code) in [
            (("response_type", None), Code::InvalidRequest),
            (("response_type", Some("token")), Code::UnsupportedResponseType),
            (("response_type", Some("code token")), Code::UnsupportedResponseType),
            (("response_type", Some("id_token")), Code::UnsupportedResponseType),
            (("response_mode", Some("fragment")), Code::InvalidRequest),
            (("response_mode", Some("form_post")), Code::InvalidRequest),
            (("request", Some("e30.e30.")), Code::RequestNotSupported),
            (("request_uri", Some("https://app.example/request")), Code::RequestUriNotSupported),
            (("code_challenge", None), Code::InvalidRequest),
            (("code_challenge", Some("")), Code::InvalidRequest),
            (("code_challenge", Some("short")), Code::InvalidRequest),
            (("code_challenge_method", None), Code::InvalidRequest),
            (("code_challenge_method", Some("plain")), Code::InvalidRequest),
            (("code_challenge_method", Some("s256")), Code::InvalidRequest),
            (("scope", Some("admin")), Code::InvalidScope),
            (("scope", Some("mcp:toolsx")), Code::InvalidScope),
            (("resource", Some("https://desk.example/")), Code::InvalidTarget),
            (("resource", Some("https://desk.example/mcp#x")), Code::InvalidTarget),
            (("resource", Some("https://desk.example/mcp/")), Code::InvalidTarget),
            (("resource", Some("https://evil.example/mcp")), Code::InvalidTarget),
        ] {
            assert_eq!(refused(&[change]), Some(code), "{change:?}");
        }
    }
}
